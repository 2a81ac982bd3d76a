# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel's gradients over the model's process group."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from hipress.torch.ddp.exact import ExactAverage
from hipress.torch.installed.private_names import GradBucket, sparse_parts
from hipress.torch.process_groups.average import GroupAverage
from hipress.torch.process_groups.dtypes import TensorShape, shape_of
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.process_groups.sides import side_for
from hipress.torch.reals import as_reals


class GroupCarrier:
    """A GroupAverage carries the buckets that have compressed gradients; torch's all-reduce carries all others."""

    def __init__(
        self,
        parameters: Mapping[str, torch.nn.Parameter],
        group: dist.ProcessGroup,
        options: GroupOptions,
        host_group: dist.ProcessGroup | None = None,
    ) -> None:
        self._side = side_for({name: each.device for name, each in parameters.items()})
        self._exact = ExactAverage(group)
        shapes = shapes_of(parameters)
        self._average = GroupAverage(shapes, group, options, host_group=host_group, side=self._side)
        self._flat = not options.is_hierarchical
        #: A rank alone has nothing to send, and loses nothing.
        self._alone = self._average.world == 1

    def average(
        self, bucket: GradBucket, named: list[tuple[str, torch.Tensor]], step: int
    ) -> torch.futures.Future[torch.Tensor]:
        """See CarrierOf."""
        self._average.raise_error()
        buffer = bucket.buffer()
        if self._alone or (self._flat and self._average.are_exact(tuple(name for name, _ in named), step)):
            ended = None if self._alone else self._average.another(named, step, 1 / self._average.world)
            self._average.count_exact(named, step)
            return self._exact.start(buffer, ended)
        result: torch.futures.Future[Any] = self._side.future()
        started = self._average.start(named, step)
        started.add_done_callback(lambda done: _pass_on(done, result, buffer))
        return result

    def average_sparse(self, buffer: torch.Tensor, step: int) -> torch.futures.Future[torch.Tensor]:
        """See CarrierOf. If it is not finite, the step does not count."""
        ended = None if self._alone else self._average.another([], step, 1 / self._average.world)
        return self._exact.start(buffer, None if ended is None else functools.partial(_look_at_values, ended))

    def change(self, options: GroupOptions) -> None:
        """See CarrierOf."""
        self._average.change(options)
        self._flat = not options.is_hierarchical

    def close(self) -> None:
        """See CarrierOf."""
        self._exact.close()
        self._average.close()  # the last, as it may raise the error of the last step

    def state_dict(self) -> dict[str, Any]:
        """See CarrierOf."""
        # Values become tensors: torch.load() reads NumPy arrays only from trusted files.
        return {
            key: {name: torch.from_numpy(values) for name, values in states.items()}
            for key, states in self._average.state_dict().items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See CarrierOf."""
        self._average.load_state_dict(_as_arrays(state))
        self._alone = self._alone and not state

    def load_states_of(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """See CarrierOf."""
        self._average.load_states_of([_as_arrays(each) for each in saved])
        # What several ranks have held back goes into the averages of one.
        self._alone = self._alone and not any(saved)

    def codec_of(self, name: str) -> str:
        """See CarrierOf."""
        return self._average.codec_of(name)

    @property
    def exact_tensors(self) -> tuple[str, ...]:
        """See CarrierOf."""
        return self._average.exact_tensors

    @property
    def sent_bytes(self) -> int:
        """See CarrierOf."""
        return self._average.sent_bytes


def shapes_of(parameters: Mapping[str, torch.nn.Parameter]) -> dict[str, TensorShape]:
    """The shapes of the parameters' gradients, as matrices where they have two dimensions or more."""
    return {name: _shape(each) for name, each in parameters.items()}


def _look_at_values(ended: Callable[[torch.Tensor | None], None], average: torch.Tensor | None) -> None:
    ended(None if average is None else as_reals(sparse_parts(average)[1]).reshape(-1))


def _shape(parameter: torch.nn.Parameter) -> TensorShape:
    rows = max(1, parameter.shape[0]) if parameter.dim() > 1 else 1
    return shape_of(parameter, rows=rows)


def _as_arrays(state: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {key: {name: np.asarray(values) for name, values in states.items()} for key, states in state.items()}


def _pass_on(done: torch.futures.Future[Any], result: torch.futures.Future[torch.Tensor], buffer: torch.Tensor) -> None:
    try:
        done.value()
    except Exception as error:
        result.set_exception(error)  # type: ignore[arg-type]
    else:
        result.set_result(buffer)

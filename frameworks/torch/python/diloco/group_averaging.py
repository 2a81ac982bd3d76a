# SPDX-License-Identifier: Apache-2.0
"""The average of pseudo-gradients over a process group of CPU tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist

from hipress.errors import InvalidArgument, Unsupported
from hipress.torch.diloco.averaging import Values
from hipress.torch.diloco.left_ranks import LeftRanks
from hipress.torch.process_groups.average import GroupAverage
from hipress.torch.process_groups.dtypes import shape_of
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.scaling.loss_scale import UNSCALED

if TYPE_CHECKING:
    from hipress.torch.diloco.ranks import Ranks


class GroupAveraging:
    """See Averaging. The tensors of a fragment are one batch."""

    takes_codec_states = True

    def __init__(
        self,
        parameters: Mapping[str, torch.Tensor],
        codec: str,
        topology: str,
        group: dist.ProcessGroup,
        left_ranks: LeftRanks,
    ) -> None:
        for name, each in parameters.items():
            if each.dtype != torch.float32:
                raise Unsupported(
                    f"parameter '{name}' is of type {each.dtype}: over a process group DiLoCo() takes float32 only"
                )
        options = GroupOptions(codec=codec, topology=topology, compress_vectors=True, scaler=UNSCALED)
        if options.is_hierarchical:
            raise InvalidArgument(
                f"topology={topology!r}: over a process group DiLoCo() averages over sites, with one rank of each: "
                "choose 'auto', 'ps', 'ring', 'butterfly' or 'allgather'"
            )
        shapes = {name: shape_of(each) for name, each in parameters.items()}
        self._average = GroupAverage(shapes, group, options)
        self._left_ranks = left_ranks

    def enter(self, ranks: Ranks) -> None:
        """See Averaging: the constructor has agreed."""

    def start(self, fragment: int, values: Values, number: int) -> Callable[[], Values]:
        """See Averaging."""
        averaged: Future[Values] = Future()

        def end(done: torch.futures.Future[Any]) -> None:
            try:
                done.wait()
            except Exception as error:
                averaged.set_exception(error)
            else:
                averaged.set_result(values)

        self._average.start(list(values.items()), number).add_done_callback(end)
        left_ranks = self._left_ranks

        def arrived() -> Values:
            return left_ranks.wait(averaged)

        return arrived

    def residuals(self) -> Values | None:
        """See Averaging: codec_states() has what codecs remember."""
        return None

    def load_residuals(self, residuals: Mapping[str, torch.Tensor]) -> None:
        """See Averaging."""

    def codec_states(self) -> dict[str, Any] | None:
        """See Averaging."""
        if not self._average.keeps_states:
            return None
        # As tensors: torch.load() reads no arrays of NumPy unless it trusts the file.
        states = {
            key: {name: torch.from_numpy(values) for name, values in each.items()}
            for key, each in self._average.state_dict().items()
        }
        return {"states": states}

    def load_codec_states(self, states: Sequence[Mapping[str, Any]]) -> None:
        """See Averaging."""
        arrays = [
            {key: {name: np.asarray(values) for name, values in kept.items()} for key, kept in each["states"].items()}
            for each in states
        ]
        if len(arrays) > 1:
            self._average.load_states_of(arrays)
        else:
            self._average.load_state_dict(arrays[0] if arrays else {})

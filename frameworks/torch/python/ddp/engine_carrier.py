# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel's gradients over HiPress' engine, whose ranks are those of the model's process group."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from hipress import runtime
from hipress.adapter.planned import PlanArgument, plan_of
from hipress.adapter.synchronizer import SynchronizationOptions
from hipress.adapter.warming_up import WarmingUp
from hipress.errors import HipressError, InvalidArgument, Unsupported
from hipress.log import logger
from hipress.torch.ddp.exact import ExactAverage
from hipress.torch.installed.private_names import GradBucket
from hipress.torch.kept_states import codec_states, load_codec_states
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.process_groups.stage import Stage
from hipress.torch.synchronizer import GradientSynchronizer


@dataclass
class _Batch:
    operations: list[int]
    buffer: torch.Tensor
    is_last: bool  # of the step
    result: torch.futures.Future[torch.Tensor]


class EngineCarrier:
    """Each gradient is an operation of the engine, as with DistributedOptimizer; a thread waits for each bucket."""

    def __init__(
        self,
        parameters: Mapping[str, torch.nn.Parameter],
        group: dist.ProcessGroup,
        options: GroupOptions,
        plan: PlanArgument = None,
    ) -> None:
        place = runtime.current().place
        if (dist.get_rank(group), dist.get_world_size(group)) != (place.rank, place.size):
            raise InvalidArgument(
                f"the model's process group has this process as rank {dist.get_rank(group)} of "
                f"{dist.get_world_size(group)}, HiPress as rank {place.rank} of {place.size}: carrier 'hipress' needs "
                "the same ranks; start both from the same launcher"
            )
        elsewhere = next((name for name, each in parameters.items() if each.device.type != "cpu"), None)
        if elsewhere is not None:
            raise Unsupported(
                f"carrier 'hipress' takes models on the CPU, and '{elsewhere}' is on {parameters[elsewhere].device}: "
                "leave out carrier=, or take DistributedOptimizer without DistributedDataParallel"
            )
        if options.seed or options.ranks_per_host:
            raise Unsupported(
                "carrier 'hipress' takes its seed from hipress.torch.init(), and knows the hosts without ranks_per_host"
            )
        if plan is not None and options.warmup is not None:
            raise InvalidArgument("a warm-up goes with codec and codec_for: give it without plan")
        self._indices = {name: index for index, name in enumerate(parameters)}
        travel = SynchronizationOptions(
            codec=options.codec,
            topology=options.topology,
            codec_for={} if plan is not None else options.codec_for,
            min_compress_bytes=0,  # codec_for holds for small gradients, too
            left_out={name for name, each in parameters.items() if _is_left_out(each, options)},
            plan=plan_of(plan, options.codec, options.topology),
        )
        warming_up = None if options.warmup is None else WarmingUp(options.warmup, travel)
        self._synchronizer = GradientSynchronizer(parameters.items(), travel, warming_up, scaler=options.scaler)
        self._exact = ExactAverage(group)
        self._error: HipressError | None = None
        reference = weakref.ref(self)

        def wait(batch: _Batch) -> None:
            target = reference()
            if target is None:
                gone = HipressError("the hook's state was deleted while it was in use")
                return batch.result.set_exception(gone)  # type: ignore[arg-type]
            target._wait(batch)

        self._waiting = Stage("hipress-wait", wait)

    def average(
        self, bucket: GradBucket, named: list[tuple[str, torch.Tensor]], step: int
    ) -> torch.futures.Future[torch.Tensor]:
        """See CarrierOf."""
        if self._error is not None:
            raise self._error
        # The warm-up changes codecs at a step's first bucket, when no operation of an earlier step is in flight.
        self._synchronizer.steps = step
        self._synchronizer.follow_warm_up()
        self._synchronizer.steps += bucket.is_last()
        result: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        operations = [self._submit(self._indices[name], tensor) for name, tensor in named]
        self._waiting.put(_Batch(operations, bucket.buffer(), bucket.is_last(), result))
        return result

    def _submit(self, index: int, gradient: torch.Tensor) -> int:
        # DDP hands over zeros for a parameter that this rank has not used. The residual of an absent gradient stays: if
        # no rank has used the parameter, DDP throws the average away.
        if gradient.numel() and not gradient[(0,) * gradient.dim()] and not gradient.any():
            return self._synchronizer.submit_absent(index, gradient)
        return self._synchronizer.submit(index, gradient)

    def _wait(self, batch: _Batch) -> None:
        try:
            for operation in batch.operations:
                self._synchronizer.wait(operation)
            if batch.is_last:
                self._synchronizer.end_step()
        except HipressError as error:
            if self._error is None:
                self._error = error
                logger().error("averaging gradients failed: %s", error)
            batch.result.set_exception(error)  # type: ignore[arg-type]
        else:
            batch.result.set_result(batch.buffer)

    def average_sparse(self, buffer: torch.Tensor, step: int) -> torch.futures.Future[torch.Tensor]:
        """See CarrierOf."""
        return self._exact.start(buffer)

    def change(self, options: GroupOptions) -> None:
        """See CarrierOf."""
        if options.plan is not None:
            self._synchronizer.set_plan(options.plan)
        else:
            self._synchronizer.set_codec(options.codec, options.codec_for)

    def close(self) -> None:
        """See CarrierOf. The engine keeps its list of tensors until `shutdown()`."""
        self._waiting.close()
        self._exact.close()

    def state_dict(self) -> dict[str, Any]:
        """See CarrierOf."""
        return dict(codec_states(self._synchronizer, exact=True))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See CarrierOf."""
        load_codec_states(self._synchronizer, state)

    def load_states_of(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """See CarrierOf."""
        load_codec_states(self._synchronizer, saved)

    def codec_of(self, name: str) -> str:
        """See CarrierOf."""
        return self._synchronizer.codec_with_options(self._indices[name])

    @property
    def exact_tensors(self) -> tuple[str, ...]:
        """See CarrierOf."""
        return self._synchronizer.exact_tensors

    @property
    def sent_bytes(self) -> int:
        """See CarrierOf."""
        return runtime.counters()["bytes_sent"]


def _is_left_out(parameter: torch.nn.Parameter, options: GroupOptions) -> bool:
    return parameter.nbytes < options.min_compress_bytes or (parameter.dim() < 2 and not options.compress_vectors)

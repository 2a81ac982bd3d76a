# SPDX-License-Identifier: Apache-2.0
"""A process group over Gloo, and over NCCL where there is a GPU: it averages large tensors compressed, and passes
everything else on."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllreduceOptions, PrefixStore, Store
from torch._C._distributed_c10d import Work as TorchWork

from hipress.errors import Unsupported
from hipress.torch.process_groups.average import GroupAverage, TensorShape
from hipress.torch.process_groups.group_calls import Group
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.process_groups.sides import side_for
from hipress.torch.process_groups.steps import Steps

_CPU = torch.device("cpu")
#: What codecs, which take float32, can represent.
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class CompressingGroup(dist.ProcessGroup):
    """Compresses all-reduces of one tensor with sum or average if the tensor is dense, on the CPU or an NVIDIA GPU, of
    float32, float16 or bfloat16, and has at least `min_compress_bytes`. All other calls are Gloo's or NCCL's own.

    All tensors that a step compresses are on one device. If a step begins with a tensor on another one, states move.

    A call says no name, so a tensor is known by its place among the step's compressed calls and its number of elements.
    A step ends when an optimizer of torch.optim has stepped, or with end_step().

    Arguments:
        store: of the group, as torch gives it to a backend.
        rank: of this process in the group.
        size: how many ranks the group has.
        timeout: of the group's collectives.
        options: the same on all ranks.

    Raises InvalidArgument; Mismatch, on all ranks, if their options differ.
    """

    def __init__(self, store: Store, rank: int, size: int, timeout: datetime.timedelta, options: GroupOptions) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]  # the only form that torch takes for subclasses
        self._store, self._timeout = store, timeout
        self._made = 0
        # What this class does not override goes to these backends.
        self._inner = self._backend_of(range(size), _CPU)
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self._register_backend(_CPU, dist.ProcessGroup.BackendType.GLOO, self._inner)
        self._inner_of_gpus: Group = None
        if dist.is_nccl_available() and torch.cuda.is_available():
            self._inner_of_gpus = self._backend_of(range(size), torch.device("cuda"))
            self._register_backend(torch.device("cuda"), dist.ProcessGroup.BackendType.NCCL, self._inner_of_gpus)
        self._options = options
        self._device = _CPU
        self._average = self._average_on(_CPU)
        self._sent_from_other_devices = 0
        self._steps = Steps(self._average.keeps_states)
        self._declared: dict[str, int] = {}

    def _backend_of(self, ranks: Sequence[int], device: torch.device) -> Group:
        self._made += 1
        store = PrefixStore(f"{self._made} {','.join(map(str, ranks))}/", self._store)
        place = list(ranks).index(self.rank())
        if device.type == "cpu":
            return dist.ProcessGroupGloo(store, place, len(ranks), self._timeout)
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = self._timeout
        return dist.ProcessGroupNCCL(store, place, len(ranks), options)

    def _inner_on(self, device: torch.device) -> Group:
        return self._inner if device.type == "cpu" or self._inner_of_gpus is None else self._inner_of_gpus

    def _average_on(self, device: torch.device) -> GroupAverage:
        """All ranks call it in one order."""
        return GroupAverage(
            {},
            self._inner_on(device),
            self._options,
            new_group=lambda ranks: self._backend_of(ranks, device),
            side=side_for({"all-reduces": device}),
        )

    def _move(self, device: torch.device, place: int) -> None:
        """From here on tensors on this device are compressed. All ranks call it in one order."""
        if place > 0:
            raise Unsupported(
                f"process group 'hipress' compresses tensors on {self._device} in this step, and now gets one on "
                f"{device}; give tensors of each device a group of their own"
            )
        average = self._average_on(device)
        if self._declared:
            average.declare({name: _shape(count) for name, count in self._declared.items()})
            average.load_state_dict(self._average.state_dict())
        self._sent_from_other_devices += self._average.sent_bytes
        self._average, self._device = average, device

    def getBackendName(self) -> str:  # noqa: N802
        """Torch's trampoline asks for it."""
        return "hipress"

    @property
    def sent_bytes(self) -> int:
        """What this rank has given to collectives of bytes; exact calls are not counted."""
        return self._sent_from_other_devices + self._average.sent_bytes

    def allreduce(self, tensors: Any, opts: Any = None, timeout: datetime.timedelta | None = None) -> Any:
        """See the class. Arguments: as torch has them, in each of its three forms."""
        given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        chosen = opts if isinstance(opts, AllreduceOptions) else _options(opts, timeout)
        if not self._compresses(given, chosen.reduceOp):
            return self._inner_on(given[0].device if given else _CPU).allreduce(given, chosen)
        (tensor,) = given
        place, step = self._steps.call()
        if tensor.device != self._device:
            self._move(tensor.device, place)
        if self._average.is_warming_up_exactly(step):
            return self._inner_on(tensor.device).allreduce(given, chosen)
        name = f"call {place} with {tensor.numel()} elements"
        self._declare({name: tensor.numel()})
        average = chosen.reduceOp == dist.ReduceOp.AVG
        return _Work(self._average.start([(name, tensor)], step, average=average), given)

    def _compresses(self, tensors: list[torch.Tensor], op: Any) -> bool:
        # Not `in`: of a ReduceOp and its value only the first knows how to compare.
        if len(tensors) != 1 or not (op == dist.ReduceOp.SUM or op == dist.ReduceOp.AVG):
            return False
        tensor = tensors[0]
        return (
            self._average.compresses
            and (tensor.device.type == "cpu" or (tensor.device.type == "cuda" and self._inner_of_gpus is not None))
            and tensor.layout == torch.strided
            and tensor.dtype in _DTYPES
            and tensor.is_contiguous()
            and tensor.numel() * tensor.element_size() >= max(1, self._options.min_compress_bytes)
        )

    def _declare(self, counts: Mapping[str, int]) -> None:
        new = {name: count for name, count in counts.items() if name not in self._declared}
        if new:
            self._average.declare({name: _shape(count) for name, count in new.items()})
            self._declared.update(new)

    def end_step(self) -> None:
        """The next compressed call is the first one of a step. For programs without an optimizer of torch.optim."""
        self._steps.end()

    def state_dict(self) -> dict[str, Any]:
        """What codecs remember on this rank, and the number of steps. Between two steps only."""
        return {"steps": self._steps.done, "tensors": dict(self._declared), "states": self._average.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what state_dict() of the same rank, of as many ranks, returned. All ranks call it. Raises
        InvalidArgument."""
        self._declare(state["tensors"])
        self._average.load_state_dict(state["states"])
        self._steps.done = int(state["steps"])


def _shape(count: int) -> TensorShape:
    return TensorShape(count, 4, 2)  # two dimensions: a flat buffer is no vector of biases


class _Work(TorchWork):
    """An average that has started."""

    def __init__(self, done: torch.futures.Future[Any], tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self._done = done
        self._future: torch.futures.Future[list[torch.Tensor]] = done.then(lambda each: _result(each, tensors))

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Until the average is there, or Gloo's timeout is over. Raises what made it fail."""
        self._done.wait()  # which raises errors with their types
        # What torchft then adds to the result of get_future() has to run at once.
        self._future.wait()
        return True

    def is_completed(self) -> bool:
        return self._future.done()

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """Gets the tensors."""
        return self._future


def _result(done: torch.futures.Future[Any], tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    done.value()
    return tensors


def _options(op: Any, timeout: datetime.timedelta | None) -> Any:
    options = AllreduceOptions()
    if op is not None:
        options.reduceOp = op
    if timeout is not None:
        options.timeout = timeout
    return options

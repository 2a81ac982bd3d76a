# SPDX-License-Identifier: Apache-2.0
"""A process group over Gloo that averages large tensors compressed, and passes everything else on."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllreduceOptions, PrefixStore, Store
from torch._C._distributed_c10d import Work as TorchWork

from hipress.torch.process_groups.average import GroupAverage, TensorShape
from hipress.torch.process_groups.group_calls import Group
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.process_groups.steps import Steps

#: What codecs, which take float32, can represent.
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class CompressingGroup(dist.ProcessGroup):
    """Compresses all-reduces of one tensor with sum or average if the tensor is dense, on the CPU, of float32, float16
    or bfloat16, and has at least `min_compress_bytes`. All other calls are Gloo's own.

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
        self._inner = self._gloo(range(size), rank)
        # What this class does not override goes to this backend.
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, self._inner)
        self._options = options
        self._average = GroupAverage({}, self._inner, options, new_group=lambda ranks: self._gloo(ranks, rank))
        self._steps = Steps(self._average.keeps_states)
        self._declared: dict[str, int] = {}

    def _gloo(self, ranks: Sequence[int], rank: int) -> Group:
        self._made += 1
        name = f"{self._made} {','.join(map(str, ranks))}/"
        return dist.ProcessGroupGloo(PrefixStore(name, self._store), list(ranks).index(rank), len(ranks), self._timeout)

    def getBackendName(self) -> str:  # noqa: N802
        """Torch's trampoline asks for it."""
        return "hipress"

    @property
    def sent_bytes(self) -> int:
        """What this rank has given to collectives of bytes; exact calls are not counted."""
        return self._average.sent_bytes

    def allreduce(self, tensors: Any, opts: Any = None, timeout: datetime.timedelta | None = None) -> Any:
        """See the class. Arguments: as torch has them, in each of its three forms."""
        given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        chosen = opts if isinstance(opts, AllreduceOptions) else _options(opts, timeout)
        if not self._compresses(given, chosen.reduceOp):
            return self._inner.allreduce(given, chosen)
        (tensor,) = given
        place, step = self._steps.call()
        if self._average.is_warming_up_exactly(step):
            return self._inner.allreduce(given, chosen)
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
            and tensor.device.type == "cpu"
            and tensor.layout == torch.strided
            and tensor.dtype in _DTYPES
            and tensor.is_contiguous()
            and tensor.numel() * tensor.element_size() >= max(1, self._options.min_compress_bytes)
        )

    def _declare(self, counts: Mapping[str, int]) -> None:
        new = {name: count for name, count in counts.items() if name not in self._declared}
        if new:
            # Two dimensions: a flat buffer is no vector of biases.
            self._average.declare({name: TensorShape(count, 4, 2) for name, count in new.items()})
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


class _Work(TorchWork):
    """An average that has started."""

    def __init__(self, done: torch.futures.Future[None], tensors: list[torch.Tensor]) -> None:
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


def _result(done: torch.futures.Future[None], tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    done.value()
    return tensors


def _options(op: Any, timeout: datetime.timedelta | None) -> Any:
    options = AllreduceOptions()
    if op is not None:
        options.reduceOp = op
    if timeout is not None:
        options.timeout = timeout
    return options

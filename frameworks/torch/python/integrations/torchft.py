# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found, misc"
"""A process group for torchft's Manager, and torchft's DistributedDataParallel with named gradients.

torchft makes the group anew when replicas come or go. The states of this replica's codecs go on in the new group
(carried_states.py).
"""

from __future__ import annotations

import contextlib
import datetime
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torchft
from torchft import process_group as torchft_groups

from hipress.errors import CodecWarning, HipressError, Unsupported
from hipress.log import logger
from hipress.torch.ddp.models import replicated
from hipress.torch.installed.private_names import GradBucket
from hipress.torch.integrations.carried_states import CarriedStates, options_for
from hipress.torch.process_groups import BackendOptions, CompressingGroup
from hipress.torch.process_groups.dtypes import TensorShape, shape_of
from hipress.torch.process_groups.named_gradients import named, naming

__all__ = ["CompressedGroup", "DistributedDataParallel"]

#: What this module uses of torchft.
_USED = {
    "Manager": ("allreduce", "current_step", "num_participants", "errored"),
    "DistributedDataParallel": ("_comm_hook",),
    "process_group.ProcessGroupWrapper": ("configure", "abort", "shutdown", "allreduce", "_create_pg"),
}


def check_version(package: Any) -> None:
    """Raises Unsupported if torchft has not what this module uses."""
    for path, names in _USED.items():
        found = package
        for part in path.split("."):
            found = getattr(found, part, None)
        missing = path if found is None else next((f"{path}.{name}" for name in names if not hasattr(found, name)), "")
        if missing:
            version = getattr(package, "__version__", "that is installed")
            raise Unsupported(
                f"hipress.torch.integrations.torchft uses torchft.{missing}, and torchft {version} has no such name: "
                "pip install torchft==0.2.0"
            )


check_version(torchft)


@dataclass
class _Model:
    """The model whose gradients this thread averages."""

    manager: Any
    shapes: Mapping[str, TensorShape]
    """Of all gradients, by name."""
    met: bool = False
    """Whether a CompressedGroup has got them."""


_current: ContextVar[_Model | None] = ContextVar("hipress_torchft", default=None)
#: How many models each manager has.
_models: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


class CompressedGroup(torchft_groups.ProcessGroupWrapper):
    """Gloo between the replicas that live, and NCCL where there is a GPU, with compressed sums of gradients.

    It compresses the buckets of this module's DistributedDataParallel, and all-reduces that the manager starts within
    hipress.torch.process_groups.gradients(). All others are exact.

    When torchft makes the group anew, a replica that goes on keeps its residuals. A new replica begins without any, and
    the residuals of a lost one are lost. A step that was not applied leaves the states of codecs as they were.

    Arguments:
        codec: as of BackendOptions.
        timeout: of collectives, and of making a group.
        options: the others of BackendOptions, by name. The topology is "auto" if none is given.

    Raises InvalidArgument; Unsupported for topology "hierarchical", because the number of replicas changes.
    """

    def __init__(
        self, codec: str, *, timeout: datetime.timedelta = datetime.timedelta(seconds=60), **options: Any
    ) -> None:
        super().__init__(timeout)
        self._chosen = BackendOptions(codec, **{"topology": "auto", **options}).group_options
        self._chosen.check((), whole=True)
        if self._chosen.is_hierarchical:
            raise Unsupported(
                "topology 'hierarchical' needs as many ranks on each host, and torchft's replicas come and go: choose "
                "topology 'auto'"
            )
        self._carried = CarriedStates()
        self._manager: Callable[[], Any] = lambda: None
        self._has_said = False
        self._sent_before = 0

    def follow(self, manager: Any) -> None:
        """From now on the manager tells the numbers of steps, and who takes part in them. This module's
        DistributedDataParallel calls it."""
        self._manager = weakref.ref(manager)

    @property
    def sent_bytes(self) -> int:
        """What this rank has given to collectives of bytes, in all groups so far."""
        return self._sent_before + (0 if self._pg is None else self._pg.sent_bytes)

    @property
    def dropped(self) -> int:
        """Of how many values residuals were dropped, because this replica got the model of another one."""
        return self._carried.dropped

    def state_dict(self) -> dict[str, Any]:
        """The states of this replica's codecs, for its own checkpoints. Between two steps only."""
        return self._carried.state_dict(self._pg, self._step(), self._owner())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what state_dict() returned on this replica; takes nothing of another one. Raises
        InvalidArgument."""
        self._carried.load_state_dict(self._pg, state, self._owner())

    # What torchft calls.
    def getBackendName(self) -> str:  # noqa: N802
        """See torchft."""
        return "hipress"

    def abort(self, *given: Any, **named: Any) -> None:
        """See torchft. The states go on in the next group."""
        group = self._pg
        super().abort(*given, **named)
        self._leave(group)

    def shutdown(self) -> None:
        """See torchft."""
        group = self._pg
        super().shutdown()
        self._leave(group)

    def errored(self) -> Exception | None:
        """The error of an average that is known by now."""
        try:
            if self._pg is not None:
                self._pg.raise_error()
        except HipressError as error:
            return error
        return None

    def allreduce(self, tensors: Any, opts: Any) -> Any:
        """See torchft. Raises Unsupported for averages of gradients, which the manager makes of sums."""
        if named() is not None and self._pg is not None:
            if getattr(opts, "reduceOp", opts) == dist.ReduceOp.AVG:
                raise Unsupported("a CompressedGroup takes sums of gradients: average them with manager.allreduce()")
            self._prepare(self._pg)
        return super().allreduce(tensors, opts)

    def _create_pg(self, store: Any, rank: int, world_size: int, *_: Any) -> CompressingGroup:
        options = options_for(self._chosen, world_size)
        made = CompressingGroup(store, rank, world_size, self._timeout, options)
        made.after_declaring = self._carried.adopt
        return made

    def _prepare(self, group: CompressingGroup) -> None:
        model = _current.get()
        if model is not None:
            model.met = True
            self.follow(model.manager)
        manager = self._manager()
        if manager is None and not self._has_said:
            self._has_said = True
            logger().warning(
                "a CompressedGroup compresses gradients for a manager that it does not know, so it counts steps that "
                "were not applied: call group.follow(manager)"
            )
        participants = (0 if manager is None else manager.num_participants()) or group.size()
        self._carried.before(group, self._step(), participants, self._owner())
        if model is not None:
            group.declare(model.shapes)

    def _leave(self, group: CompressingGroup | None) -> None:
        if group is not None:
            self._sent_before += group.sent_bytes
            self._carried.leave(group, self._step())

    def _step(self) -> int | None:
        manager = self._manager()
        return None if manager is None else int(manager.current_step())

    def _owner(self) -> str:
        """This rank among all replicas; empty before torchft has told it."""
        return "" if self._replica_id is None else f"{self._replica_id}/{getattr(self, '_group_rank', 0) or 0}"


class DistributedDataParallel(torchft.DistributedDataParallel):
    """torchft's, which tells the manager's CompressedGroup that buckets are gradients, and of which parameters.

    Arguments: as of torchft's.
    """

    def __init__(self, manager: Any, module: torch.nn.Module, **kwargs: Any) -> None:
        self._number = _models[manager] = _models.get(manager, 0) + 1
        self._has_hook = False
        super().__init__(manager, module, **kwargs)
        if not self._has_hook:
            raise Unsupported(
                "this torchft's DistributedDataParallel does not register its _comm_hook, so gradients would have no "
                "names: pip install torchft==0.2.0"
            )

    @property
    def _comm_hook(self) -> Callable[[Any, GradBucket], torch.futures.Future[torch.Tensor]]:
        """torchft registers it when torch has found the parameters. It does not keep the model alive."""
        self._has_hook = True
        prefix = "" if self._number == 1 else f"model {self._number}: "
        parameters = {f"{prefix}{name}": each for name, each in replicated(self).parameters.items()}
        return _hook_for(
            {id(each): name for name, each in parameters.items()},
            {name: shape_of(each) for name, each in parameters.items()},
        )


def _hook_for(
    names: Mapping[int, str], shapes: Mapping[str, TensorShape]
) -> Callable[[Any, GradBucket], torch.futures.Future[torch.Tensor]]:
    """`names`: of parameters, by their ids."""

    def hook(manager: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        own = [names[id(each)] for each in bucket.parameters()]
        model = _Model(manager, shapes)
        with naming({name: shapes[name] for name in own}), _of(model):
            work = manager.allreduce(bucket.buffer())
        # torchft's own hook asserts that the wait has not failed. The manager knows the error, and drops the step.
        work.wait()
        if not model.met and manager.errored() is None:
            _say_uncompressed(manager)
        return _completed(bucket.buffer())

    # torch compares the annotations with types.
    hook.__annotations__ = {"bucket": GradBucket, "return": torch.futures.Future[torch.Tensor]}
    return hook


def _completed(tensor: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future(
        devices=[tensor.device] if tensor.is_cuda else None
    )
    future.set_result(tensor)
    return future


@contextlib.contextmanager
def _of(model: _Model) -> Iterator[None]:
    token = _current.set(model)
    try:
        yield
    finally:
        _current.reset(token)


_uncompressed: weakref.WeakSet[Any] = weakref.WeakSet()


def _say_uncompressed(manager: Any) -> None:
    if manager not in _uncompressed:
        _uncompressed.add(manager)
        warnings.warn(
            "hipress.torch.integrations.torchft.DistributedDataParallel compresses nothing, because the manager has "
            "another process group: give it Manager(pg=CompressedGroup(codec, timeout=...))",
            CodecWarning,
            stacklevel=2,
        )

# SPDX-License-Identifier: Apache-2.0
"""Each rank's own states in torch.distributed.checkpoint."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import torch.distributed as dist

from hipress import runtime
from hipress.errors import InvalidArgument
from hipress.torch.diloco import DiLoCo
from hipress.torch.distributed_optimizer import DistributedTorchOptimizer
from hipress.torch.kept_states import codec_states, load_codec_states
from hipress.torch.synchronizer import GradientSynchronizer

if TYPE_CHECKING:
    from torch.distributed.checkpoint.storage import StorageReader

#: Their codecs' states are not in a state_dict() of theirs.
_Lists = (DistributedTorchOptimizer, GradientSynchronizer)
_KEY = re.compile(r"(?:^|\.)rank (\d+) of (\d+)$")


class RankStates:
    """What HiPress keeps on each rank, as an object for torch.distributed.checkpoint (a Stateful):

        dcp.save({"model": ..., "hipress": hp.RankStates(state)}, checkpoint_id=path)
        dcp.load({"model": ..., "hipress": hp.RankStates(state, path)}, checkpoint_id=path)

    torch.distributed.checkpoint keeps one value of each key, and loads the keys that the program has. So a rank saves
    all that is its own under one key with its number. All ranks save and load.

    Arguments:
        keeper: what `ddp.compress()`, `fsdp.compress_replicas()`, `fsdp.compress_hybrid()`,
            `fsdp.compress_reduce_scatter()` or `fsdp.compress_all_gather()` returned, a group of the backend "hipress",
            a DiLoCo, an optimizer of DistributedOptimizer() (its codecs' states; save the optimizer beside it) or of
            `hipress.torch.optim` (all of its state).
        saved_in: to load: the checkpoint's path, or its StorageReader, in which it looks for the number of ranks that
            saved it. None: as many as there are now; otherwise torch.distributed.checkpoint says which key is missing.

    Loading raises what the keeper's load_state_dict() raises; InvalidArgument if states of another number of ranks do
    not fit the keeper.
    """

    def __init__(self, keeper: Any, saved_in: str | os.PathLike[str] | StorageReader | None = None) -> None:
        if not isinstance(keeper, _Lists) and not (
            hasattr(keeper, "state_dict") and hasattr(keeper, "load_state_dict")
        ):
            raise InvalidArgument(
                f"a {type(keeper).__name__} keeps nothing of HiPress: give RankStates() what compress() returned, a "
                "DiLoCo, or an optimizer of HiPress"
            )
        self._keeper = keeper
        self._saved_in = saved_in

    def state_dict(self) -> dict[str, Any]:
        """This rank's own; for a checkpoint of another number of ranks, places for the states of all of them."""
        rank, world = _place()
        saved_by = world if self._saved_in is None else _ranks_in(self._saved_in)
        if saved_by != world:
            return {_key(each, saved_by): None for each in range(saved_by)}
        # A list of a tuple: torch.distributed.checkpoint takes it as one value, of any content.
        return {_key(rank, world): [(self._own(),)]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what torch.distributed.checkpoint has read. All ranks call it."""
        rank, world = _place()
        found = {int(match[1]): state_dict[key] for key in state_dict if (match := _KEY.search(key)) is not None}
        saved_by = {int(match[2]) for key in state_dict if (match := _KEY.search(key)) is not None}
        if len(saved_by) != 1 or any(not each for each in found.values()):
            raise InvalidArgument("this is no state of hipress.torch.RankStates, or the checkpoint was not read")
        states = {old: each[0][0] for old, each in found.items()}
        if saved_by == {world}:
            self._load(states[rank])
        else:
            self._load_all([states[old] for old in sorted(states)])
        self._saved_in = None  # what it saves from now on is of as many ranks as there are

    def _own(self) -> Any:
        if isinstance(self._keeper, _Lists):
            return codec_states(self._keeper, exact=True)
        if _has_codecs_of_the_engine(self._keeper):
            return {"diloco": self._keeper.state_dict(), "codecs": codec_states(self._keeper, exact=True)}
        return self._keeper.state_dict()

    def _load(self, state: Any) -> None:
        if isinstance(self._keeper, _Lists):
            load_codec_states(self._keeper, state)
        elif _has_codecs_of_the_engine(self._keeper):
            self._keeper.load_state_dict(state["diloco"])
            load_codec_states(self._keeper, state["codecs"])
        else:
            self._keeper.load_state_dict(state)

    def _load_all(self, states: list[Any]) -> None:
        if isinstance(self._keeper, _Lists):
            load_codec_states(self._keeper, states)
        elif _has_codecs_of_the_engine(self._keeper):
            self._keeper.load_state_dict(states[0]["diloco"])  # the same on all ranks
            load_codec_states(self._keeper, [each["codecs"] for each in states])
        elif isinstance(self._keeper, DiLoCo):
            self._keeper.load_state_dict(states)
        elif hasattr(self._keeper, "load_states_of"):
            self._keeper.load_states_of(states)
        else:
            raise InvalidArgument(
                f"the checkpoint has the states of {len(states)} ranks, and a {type(self._keeper).__name__} takes only "
                f"states of as many ranks as there are: {_place()[1]}"
            )


def _has_codecs_of_the_engine(keeper: Any) -> TypeGuard[DiLoCo]:
    """Whether it is a DiLoCo whose state_dict() does not have what its codecs hold back."""
    return isinstance(keeper, DiLoCo) and keeper.uses_engine_codecs


def _place() -> tuple[int, int]:
    """This rank's number, and how many there are, as torch.distributed.checkpoint counts them."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    place = runtime.current().place
    return place.rank, place.size


def _key(rank: int, world: int) -> str:
    return f"rank {rank} of {world}"


def _ranks_in(saved_in: str | os.PathLike[str] | StorageReader) -> int:
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    reader = FileSystemReader(saved_in) if isinstance(saved_in, (str, os.PathLike)) else saved_in
    keys = reader.read_metadata().state_dict_metadata
    found = {int(match[2]) for key in keys if (match := _KEY.search(key)) is not None}
    if len(found) != 1:
        raise InvalidArgument(
            f"the checkpoint {saved_in} has " + (f"states of {sorted(found)} ranks" if found else "no RankStates")
        )
    return found.pop()

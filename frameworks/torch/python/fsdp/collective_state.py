# SPDX-License-Identifier: Apache-2.0
"""What remains of a collective of FSDP2 that HiPress has replaced: a byte counter, steps, errors, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hipress._library import load_core
from hipress.errors import HipressError, InvalidArgument, Unsupported
from hipress.torch.fsdp.units import Unit
from hipress.torch.process_groups.agreement import check_alike
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.process_groups.side import Side


class CollectiveState:
    """The byte counter and the steps of one model's collectives of one kind, one collective for each unit."""

    def __init__(self, side: Side, put_back: Callable[[Unit, Any], Any]) -> None:
        """`put_back`: makes FSDP2 call for a unit what it called before."""
        self._side = side
        self._put_back = put_back
        self._failed: HipressError | None = None
        #: Bytes of encoded shards that this rank has sent to other ranks; values without a codec are not counted.
        self.sent_bytes = 0
        #: The names of the parameters whose shards travel without a codec.
        self.exact_tensors: tuple[str, ...] = ()
        #: The units, and what made their collectives before.
        self.replaced: list[tuple[Unit, Any]] = []

    def state_dict(self) -> dict[str, Any]:
        """The number of steps of each unit, from which random rounding goes on. Raises the error of the last step if no
        call has raised it, as on a GPU errors come later than the calls."""
        self._side.synchronize()
        self.raise_error()
        return {"steps": [unit.steps for unit, _ in self.replaced]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from state_dict(). Raises InvalidArgument if the state is of another model."""
        steps = state.get("steps", ())
        if len(steps) != len(self.replaced):
            raise InvalidArgument(
                f"the state is of a model with {len(steps)} sharded modules; this one has {len(self.replaced)}"
            )
        for (unit, _), done in zip(self.replaced, steps, strict=True):
            unit.steps = int(done)

    def load_states_of(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Goes on from the states of all ranks of an earlier job, which are the same."""
        self.load_state_dict(saved[0])

    def close(self) -> None:
        """Frees the buffers of the collectives. All ranks call it, between two steps.

        From then on FSDP2 sends exact values, also if this raises the error of the last step because no call has raised
        it.
        """
        units, self.replaced = self.replaced, [(unit, None) for unit, _ in self.replaced]
        for unit, before in units:
            if before is not None:
                self._put_back(unit, before)
        if self._failed is None:
            self._side.synchronize()
            self.raise_error()

    def raise_error(self) -> None:
        """Raises the error of an earlier step if one is known by now."""
        if self._failed is None:
            self._failed = self._side.failure()
        if self._failed is not None:
            raise self._failed


def check_without_states(options: GroupOptions) -> None:
    """Raises Unsupported for a codec that would keep a state of the whole model on each rank."""
    for text in (options.codec, *options.codec_for.values()):
        if states := load_core().create_codec(text).states:
            raise Unsupported(
                f"codec '{text}' keeps a state ('{states[0]}') of the whole model on each rank, and FSDP shards it: "
                "choose a codec without error feedback, such as fp16 or terngrad"
            )


def check_units_alike(caller: str, unit: Unit, shapes: Mapping[str, Any], options: GroupOptions, side: Side) -> None:
    """Raises Mismatch, on all ranks that share the unit, if their calls, arguments or shards differ."""
    assert unit.shard_group is not None
    shards = [f"{name}: {shape.count} elements of {shape.dtype} per rank" for name, shape in shapes.items()]
    check_alike(unit.shard_group, "\n".join([options.described(), f"call {caller}", *shards]), side.device)

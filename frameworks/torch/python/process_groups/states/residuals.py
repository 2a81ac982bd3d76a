# SPDX-License-Identifier: Apache-2.0
"""What codecs remember from step to step, by the tensor's name: the worker's states, and those of the shares that this
rank averages.

States are kept by name and elements, not by bucket: DistributedDataParallel forms other buckets after its first step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hipress.errors import InvalidArgument
from hipress.torch.process_groups.side import Side

if TYPE_CHECKING:
    from hipress._core import Codec, SlotStateTable

Floats = NDArray[np.float32]
#: What error feedback keeps, in all codecs: a value for each element.
RESIDUAL = "residual"


def block_of(codec: Codec | None, state: str) -> int:
    """How many elements share a value of the state; 1 for a state that the codec does not keep."""
    return codec.state_block(state) if codec is not None and state in codec.states else 1


def length_of(count: int, block: int) -> int:
    """The number of values of a state for `count` elements, of which `block` share one."""
    return -(-count // block)


def key_text(name: str, role: str, first: int, count: int) -> str:
    """The key of a saved state: tensor, role ("worker" or "aggregator"), first element, number of elements."""
    return f"{name}\n{role}\n{first}\n{count}"


class Residuals:
    """The states of all partitions that this rank encodes."""

    def __init__(self, side: Side) -> None:
        self._side = side
        #: The core finds and changes them here.
        self.table = side.table()

    def state_dict(self) -> dict[str, Any]:
        """Copies of all states: {"tensor\\nrole\\nfirst\\ncount": {state: values}}."""
        self._side.synchronize()
        return dict(self.table.read())

    def checked(
        self,
        state: Mapping[str, Mapping[str, Any]],
        counts: Mapping[str, int],
        own: Mapping[str, Collection[str]],
        codecs: Mapping[str, Codec],
    ) -> SlotStateTable:
        """A table of what state_dict() gave. Raises InvalidArgument, also for a state that this rank would never use.

        Arguments:
            counts: elements of each tensor.
            own: of each tensor that travels compressed, the keys of what this rank remembers.
            codecs: of each tensor that travels compressed.
        """
        loaded = self._side.table()
        _check_ends(state, own, counts)
        for text, values in state.items():
            fields = text.split("\n")
            if len(fields) != 4:
                raise InvalidArgument(f"the state has an entry '{text}', which no state_dict() of HiPress writes")
            name, role, first, count = fields[0], fields[1], int(fields[2]), int(fields[3])
            if name not in counts:
                raise InvalidArgument(f"the state is of a parameter '{name}', which the model does not have")
            if first + count > counts[name]:
                raise InvalidArgument(
                    f"the state of '{name}' covers {first + count} elements; the parameter has {counts[name]}"
                )
            key = key_text(name, role, first, count)
            if name in own and key not in own[name]:
                raise InvalidArgument(
                    f"the state of '{name}' is the {role}'s for {count} elements from {first} on, which this rank does "
                    "not have: it is of another rank, or of another number of ranks; load what this rank of as many "
                    "ranks saved, or give the hook's load_states_of() the states of all ranks"
                )
            arrays = {each: np.array(array, np.float32) for each, array in values.items()}
            blocks = {each: block_of(codecs.get(name), each) for each in arrays}
            for each, array in arrays.items():
                length = length_of(count, blocks[each])
                if array.shape != (length,):
                    raise InvalidArgument(f"the state '{each}' of '{name}' does not have {length} elements")
            for each, array in arrays.items():
                loaded.put(key, each, array, blocks[each], count)
        return loaded


def _check_ends(state: Mapping[str, Any], own: Mapping[str, Collection[str]], counts: Mapping[str, int]) -> None:
    """Raises InvalidArgument if the states end elsewhere than this rank's: the parameter had another shape."""
    ends = _ends(key for keys in own.values() for key in keys)
    check_ends([key for key in state if ends.get(key.split("\n")[0]) == counts.get(key.split("\n")[0])], counts)


def check_ends(keys: Iterable[str], counts: Mapping[str, int]) -> None:
    """Raises InvalidArgument unless the states with these keys end where their parameters do."""
    for name, end in _ends(keys).items():
        if end != counts.get(name, end):
            raise InvalidArgument(
                f"the state is of a parameter with {end} elements; the model's '{name}' has {counts[name]}"
            )


def _ends(keys: Iterable[str]) -> dict[str, int]:
    """Where the last state ends, by the tensor's name. A rank is the worker or the aggregator of each part of a tensor
    that it averages."""
    ends: dict[str, int] = {}
    for key in keys:
        fields = key.split("\n")
        if len(fields) == 4:
            ends[fields[0]] = max(ends.get(fields[0], 0), int(fields[2]) + int(fields[3]))
    return ends

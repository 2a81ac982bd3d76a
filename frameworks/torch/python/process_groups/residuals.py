# SPDX-License-Identifier: Apache-2.0
"""What codecs remember from step to step, by the tensor's name: the worker's states, and those of the shares that this
rank averages.

States are kept by name and elements, not by bucket: DistributedDataParallel forms other buckets after its first step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import InvalidArgument

Floats = NDArray[np.float32]
#: Tensor, role ("worker" or "aggregator"), first element, number of elements.
Key = tuple[str, str, int, int]


class Residuals:
    """The states of all partitions that this rank encodes."""

    def __init__(self) -> None:
        self._states: dict[Key, dict[str, tuple[Floats, Floats]]] = {}

    def encode(self, codec: _core.Codec, key: Key, values: Floats, output: NDArray[np.uint8], **numbers: Any) -> int:
        """Encodes into `output` with the states of `key`; returns the payload's bytes.

        A payload of 0 bytes says that a value was not finite; the states are then the old ones.
        """
        states = self._states.get(key)
        if states is None or tuple(states) != codec.states:
            old = states or {}
            zeros = {name: np.zeros(values.size, np.float32) for name in codec.states}
            kept = {name: old[name][0] if name in old else zeros[name] for name in codec.states}
            states = {name: (kept[name], np.empty(values.size, np.float32)) for name in codec.states}
            self._states[key] = states
        before = [pair[0] for pair in states.values()]
        after = [pair[1] for pair in states.values()]
        size = codec.encode_into(values, before, after, output, **numbers)
        if size > 0:
            self._states[key] = {name: (new, old) for name, (old, new) in states.items()}
        return size

    def undo(self, keys: Iterable[Key]) -> None:
        """Takes back the last encode() of these: their step has failed."""
        for key in keys:
            self._states[key] = {name: (old, new) for name, (new, old) in self._states[key].items()}

    def state_dict(self) -> dict[str, Any]:
        """Copies of all states: {"tensor\\nrole\\nfirst\\ncount": {state: values}}."""
        return {
            "\n".join(map(str, key)): {name: pair[0].copy() for name, pair in states.items()}
            for key, states in self._states.items()
        }

    def load_state_dict(self, state: Mapping[str, Mapping[str, Any]], counts: Mapping[str, int]) -> None:
        """Takes what state_dict() gave. `counts`: elements of each tensor. Raises InvalidArgument."""
        loaded: dict[Key, dict[str, tuple[Floats, Floats]]] = {}
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
            arrays = {each: np.array(array, np.float32) for each, array in values.items()}
            wrong = [each for each, array in arrays.items() if array.shape != (count,)]
            if wrong:
                raise InvalidArgument(f"the state '{wrong[0]}' of '{name}' does not have {count} elements")
            loaded[name, role, first, count] = {each: (array, np.empty_like(array)) for each, array in arrays.items()}
        self._states = loaded

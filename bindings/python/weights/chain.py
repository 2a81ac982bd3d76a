# SPDX-License-Identifier: Apache-2.0
"""The versions that bring weights from one version to a newer one, and what they write to each tensor.

They are read from the newest to the oldest. What a newer version replaces is not kept, and beyond the bytes of one
model a version is read a second time, so a follower that is many versions behind needs no memory for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hipress._library import load_core
from hipress.errors import CorruptPayload
from hipress.weights.store import Store, name_of
from hipress.weights.version import Entry, Header, Version, read
from hipress.weights.weight import Weight, check_same_model

Bytes: TypeAlias = NDArray[np.uint8]


@dataclass(frozen=True)
class Step:
    """One change of a tensor: all its bytes, or some elements."""

    raw: bool
    part: memoryview
    element_bytes: int
    crc: int | None
    """The checked CRC-32C of a raw part; None: not known."""

    def write(self, weight: Bytes) -> None:
        """Makes the change."""
        if self.raw:
            weight[:] = np.frombuffer(self.part, np.uint8)
        else:
            load_core().apply_changes(weight, self.part, self.element_bytes)


class Chain:
    """The versions of a chain, the newest first."""

    def __init__(self, store: Store, weights: Sequence[Weight]) -> None:
        self._store, self._weights = store, {weight.name: weight for weight in weights}
        self._room = sum(weight.bytes.size for weight in weights)
        self._versions: list[tuple[int, Version | None, frozenset[str]]] = []  # None: it is to be read again.
        self.open = set(self._weights)
        """The tensors whose values still depend on an older version."""
        self._newest: Header | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the versions need no older one."""
        return not self.open

    @property
    def last(self) -> Header:
        """The newest version's header."""
        assert self._newest is not None
        return self._newest

    def add(self, number: int) -> Header:
        """Reads the next older version. Raises FileNotFoundError, CorruptPayload, Mismatch, Unsupported."""
        version = self._read(number)
        if self._newest is None:
            self._newest = version.header
        needed = frozenset(
            entry.name for entry in version.header.tensors if entry.encoding != "same" and entry.name in self.open
        )
        self.open -= {entry.name for entry in version.header.tensors if entry.encoding == "raw"}
        if version.is_anchor:
            self.open = set()
        if needed:
            keep = not self._versions or version.payload.nbytes <= self._room
            self._room -= version.payload.nbytes if keep else 0
            self._versions.append((number, version if keep else None, needed))
        return version.header

    def steps(self) -> dict[str, list[Step]]:
        """What each tensor needs, in this order. Raises the errors of `add()`."""
        if any(version is None for _, version, _ in self._versions):
            return self._joined()
        steps: dict[str, list[Step]] = {name: [] for name in self._weights}
        for _, version, needed in reversed(self._versions):
            assert version is not None
            for entry, part in version.parts():
                if entry.name in needed:
                    steps[entry.name].append(_step(entry, part))
        return steps

    def _joined(self) -> dict[str, list[Step]]:
        """The same as one step for each tensor: the versions do not fit into memory together, so they are applied to
        copies."""
        copies: dict[str, Bytes] = {}
        for number, version, needed in reversed(self._versions):
            for entry, part in (version or self._read(number)).parts():
                if entry.name in needed:
                    if entry.name not in copies:
                        copies[entry.name] = self._weights[entry.name].bytes.copy()
                    _step(entry, part).write(copies[entry.name])
        return {
            name: [Step(True, copies[name].data, 1, load_core().crc32c(copies[name]))] if name in copies else []
            for name in self._weights
        }

    def _read(self, number: int) -> Version:
        where = f"{name_of(number)} in {self._store}"
        version = read(self._store.read(name_of(number)), where)
        if version.header.version != number:
            raise CorruptPayload(f"{where} says that it is version {version.header.version}")
        theirs = [(entry.name, entry.kind) for entry in version.header.tensors]
        ours = [(weight.name, weight.kind) for weight in self._weights.values()]
        check_same_model(ours, theirs, f"version {number} in {self._store}")
        if len(theirs) != len(ours):
            raise CorruptPayload(f"{where} has two weights of one name")
        for entry in version.header.tensors:
            weight = self._weights[entry.name]
            # The type's name and the shape agree; a wrong publisher can still say another number of bytes.
            if (entry.element_bytes, entry.tensor_bytes) != (weight.element_bytes, weight.bytes.size):
                raise CorruptPayload(
                    f"{where}: weight '{entry.name}' has elements of {entry.element_bytes} bytes, and the model's have "
                    f"{weight.element_bytes}"
                )
        return version


def _step(entry: Entry, part: memoryview) -> Step:
    raw = entry.encoding == "raw"
    return Step(raw, part, entry.element_bytes, entry.crc if raw else None)

# SPDX-License-Identifier: Apache-2.0
"""Applies versions of weights."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hipress._library import load_core
from hipress.errors import CorruptPayload, InvalidArgument, Timeout
from hipress.weights.store import Store, name_of, versions
from hipress.weights.version import Entry, Version, read
from hipress.weights.weight import Weight, check_names, check_same_model

Bytes: TypeAlias = NDArray[np.uint8]
#: One tensor in one version: its entry, and its part of the payload.
Step: TypeAlias = tuple[Entry, memoryview]
#: Seconds between two requests to the store: the first pause, and the longest.
_PAUSES = (0.02, 1.0)


class Follower:
    """A reader of a stream. It brings weights to the newest version, in place.

    A stream has any number of followers. They read the store and write nothing there.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._version = 0
        self._sums: dict[str, int] = {}

    @property
    def version(self) -> int:
        """The version of the weights; 0: none yet."""
        return self._version

    def follow(self, weights: Sequence[Weight], timeout: float, *, from_anchor: bool = False) -> int:
        """Brings the weights to the newest version, and returns its number.

        Waits up to `timeout` seconds for a version newer than the last one. `from_anchor` reads all values again,
        because other code may have changed the weights since the last call.

        Raises Timeout; Mismatch with the first difference if the stream is of another model; CorruptPayload with the
        name of a truncated or altered file; InvalidArgument if the weights are not those of the last call; Unsupported.
        The weights are unchanged then.
        """
        check_names(weights)
        deadline = time.monotonic() + timeout
        pause = _PAUSES[0]
        while True:
            missing: int | None = None
            found = versions(self._store)
            if found and (found[-1] > self._version or from_anchor):
                chain = self._chain(found, from_anchor)
                if not isinstance(chain, int):
                    return self._apply(weights, chain)
                missing = chain
            left = deadline - time.monotonic()
            if left <= 0 and missing is not None:
                raise Timeout(
                    f"{self._store} has version {found[-1]}, but lacks version {missing}, to which its changes apply, "
                    f"after {timeout:g} s: put the file back, or wait for the publisher's next anchor, which has all "
                    "values"
                )
            if left <= 0:
                raise Timeout(
                    f"{self._store} has no version after {self._version} after {timeout:g} s: "
                    "does the publisher still run, and is this its folder?"
                )
            time.sleep(min(pause, left))
            pause = min(2 * pause, _PAUSES[1])

    def _chain(self, found: list[int], from_anchor: bool) -> list[Version] | int:
        """The versions to apply, the oldest first; or the number of one of them that is missing: the publisher has
        deleted it in between, or the stream has a gap."""
        chain: list[Version] = []
        number = found[-1]
        while True:
            name = name_of(number)
            try:
                data = self._store.read(name)
            except FileNotFoundError:
                return number
            version = read(data, f"{name} in {self._store}")
            if version.header.version != number:
                raise CorruptPayload(f"{name} in {self._store} says that it is version {version.header.version}")
            chain.append(version)
            base = version.header.base
            if base is None or (base == self._version and not from_anchor):
                return chain[::-1]
            if base >= number:
                raise CorruptPayload(f"{name} in {self._store} is based on version {base}, which is not older")
            number = base

    def _apply(self, weights: Sequence[Weight], chain: list[Version]) -> int:
        kinds = [(weight.name, weight.kind) for weight in weights]
        for version in chain:
            theirs = [(entry.name, entry.kind) for entry in version.header.tensors]
            check_same_model(kinds, theirs, f"version {version.header.version} in {self._store}")
        for weight in weights:
            if not weight.bytes.flags.writeable:
                raise InvalidArgument(f"the weight '{weight.name}' is read-only")
        core = load_core()
        by_name = {weight.name: weight for weight in weights}
        if not chain[0].is_anchor:
            for weight in weights:
                if core.crc32c(weight.bytes) != self._sums[weight.name]:
                    raise InvalidArgument(
                        f"the weight '{weight.name}' was changed since version {self._version} was applied to it: "
                        "follow with from_anchor=True, or follow with the weights of the last call"
                    )
        steps = {name: _steps(parts) for name, parts in _by_tensor(chain).items()}
        last = chain[-1].header
        for entry in last.tensors:
            # On a copy of one tensor at a time: otherwise an error would leave weights of two versions.
            if self._sum_after(by_name[entry.name].bytes, steps[entry.name], entry.name) != entry.after:
                raise CorruptPayload(
                    f"version {last.version} in {self._store} gives '{entry.name}' other bytes than the publisher's: "
                    "the files are of different streams; follow with from_anchor=True, or clear the folder and "
                    "start the publisher again"
                )
        for name, parts in steps.items():
            for entry, part in parts:
                _write(by_name[name].bytes, entry, part)
        self._version = last.version
        self._sums = {entry.name: entry.after for entry in last.tensors}
        return self._version

    def _sum_after(self, weight: Bytes, steps: Sequence[Step], name: str) -> int:
        """The CRC-32C of a tensor after these steps, which leave it unchanged here."""
        if not steps:
            return self._sums[name]
        if len(steps) == 1 and steps[0][0].encoding == "raw":
            return steps[0][0].crc
        copied = weight.copy()
        for entry, part in steps:
            _write(copied, entry, part)
        found: int = load_core().crc32c(copied)
        return found


def _by_tensor(chain: Sequence[Version]) -> dict[str, list[Step]]:
    """Each tensor's entries and parts in the versions of a chain, the oldest first."""
    parts: dict[str, list[Step]] = {entry.name: [] for entry in chain[-1].header.tensors}
    for version in chain:
        for entry, part in version.parts():
            parts[entry.name].append((entry, part))
    return parts


def _steps(parts: Sequence[Step]) -> list[Step]:
    """What has to be written: nothing for versions that left the tensor as it was, or that a later one replaces."""
    steps: list[Step] = []
    for entry, part in parts:
        if entry.encoding == "raw":
            steps = []
        if entry.encoding != "same":
            steps.append((entry, part))
    return steps


def _write(weight: Bytes, entry: Entry, part: memoryview) -> None:
    if entry.encoding == "raw":
        weight[:] = np.frombuffer(part, np.uint8)
    else:
        load_core().apply_changes(weight, part, entry.element_bytes)

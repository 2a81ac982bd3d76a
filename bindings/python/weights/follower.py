# SPDX-License-Identifier: Apache-2.0
"""Applies versions of weights."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hipress._library import load_core
from hipress.errors import CorruptPayload, InvalidArgument, Timeout
from hipress.weights.chain import Bytes, Chain, Step
from hipress.weights.store import Store, name_of, versions
from hipress.weights.weight import Weight, check_names

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
            found = versions(self._store.names())
            if found and (found[-1] > self._version or from_anchor):
                chain = self._chain(weights, found, from_anchor)
                try:
                    if not isinstance(chain, int):
                        return self._apply(weights, chain)
                    missing = chain
                except FileNotFoundError:  # the publisher has deleted it while the chain was read again
                    missing = None
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

    def _chain(self, weights: Sequence[Weight], found: list[int], from_anchor: bool) -> Chain | int:
        """What to write; or the number of a version that is missing: the publisher has deleted it in between, or the
        stream has a gap."""
        chain = Chain(self._store, weights)
        number = found[-1]
        while True:
            try:
                header = chain.add(number)
                if chain.is_whole or (header.base == self._version and not from_anchor):
                    return chain
            except FileNotFoundError:
                return number
            assert header.base is not None
            if header.base >= number:
                raise CorruptPayload(
                    f"{name_of(number)} in {self._store} is based on version {header.base}, which is not older"
                )
            number = header.base

    def _apply(self, weights: Sequence[Weight], chain: Chain) -> int:
        core = load_core()
        for weight in weights:
            if not weight.bytes.flags.writeable:
                raise InvalidArgument(f"the weight '{weight.name}' is read-only")
            if weight.name in chain.open and core.crc32c(weight.bytes) != self._sums[weight.name]:
                raise InvalidArgument(
                    f"the weight '{weight.name}' was changed since version {self._version} was applied to it: "
                    "follow with from_anchor=True, or follow with the weights of the last call"
                )
        last, steps = chain.last, chain.steps()
        by_name = {weight.name: weight.bytes for weight in weights}
        for entry in last.tensors:
            # On a copy of one tensor at a time: otherwise an error would leave weights of two versions.
            if self._sum_after(by_name[entry.name], steps[entry.name], entry.name) != entry.after:
                raise CorruptPayload(
                    f"version {last.version} in {self._store} gives '{entry.name}' other bytes than the publisher's: "
                    "the files are of different streams; follow with from_anchor=True, or clear the folder and "
                    "start the publisher again"
                )
        for name, parts in steps.items():
            for step in parts:
                step.write(by_name[name])
        self._version = last.version
        self._sums = {entry.name: entry.after for entry in last.tensors}
        return self._version

    def _sum_after(self, weight: Bytes, steps: Sequence[Step], name: str) -> int:
        """The CRC-32C of a tensor after these steps, which leave it unchanged here."""
        if not steps:
            return self._sums[name]
        if len(steps) == 1 and steps[0].crc is not None:
            return steps[0].crc
        copied = weight.copy()
        for step in steps:
            step.write(copied)
        found: int = load_core().crc32c(copied)
        return found

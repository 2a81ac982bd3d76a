# SPDX-License-Identifier: Apache-2.0
"""Writes versions of weights."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hipress._library import load_core
from hipress.errors import InvalidArgument
from hipress.weights.store import Store, name_of, new_publisher, publishers, versions
from hipress.weights.version import Buffer, Encoding, Entry, Header, written
from hipress.weights.weight import Weight, check_names, check_same_model

#: A version becomes an anchor if the tensors that it does not have as a whole are at most this part of the bytes.
_NEARLY = 16


class Publisher:
    """The only writer of a stream. It keeps a copy of the last version to find the changes.

    Arguments:
        store: the store of the versions. If it has versions, the stream goes on with the next number, as an anchor.
        anchor_every: one of this many versions is an anchor with all values, for followers that begin or missed
            versions.
        keep_anchors: number of anchors to keep; older versions are deleted.

    Raises InvalidArgument.
    """

    def __init__(self, store: Store, *, anchor_every: int = 50, keep_anchors: int = 2) -> None:
        for name, value in (("anchor_every", anchor_every), ("keep_anchors", keep_anchors)):
            if value < 1:
                raise InvalidArgument(f"{name}={value} is too small: expected at least 1")
        self._store, self._anchor_every, self._keep_anchors = store, anchor_every, keep_anchors
        self._version = max(versions(store.names()), default=0)
        self._copies: dict[str, NDArray[np.uint8]] = {}
        self._kinds: list[tuple[str, str]] = []
        self._anchors: list[int] = []
        self._name, self._is_in_store = new_publisher(), False

    @property
    def version(self) -> int:
        """The last version; 0: none yet."""
        return self._version

    def publish(self, weights: Sequence[Weight]) -> int:
        """Writes the next version, and returns its number.

        Raises InvalidArgument, also if another publisher wrote to the stream; Mismatch if the model is another one.
        A store's own errors pass through. After an error the next version is an anchor.
        """
        check_names(weights)
        kinds = [(weight.name, weight.kind) for weight in weights]
        if self._kinds:
            check_same_model(kinds, self._kinds, "the version before")
        copies, self._copies = self._copies, {}  # after an error, followers may lack values of these copies
        version = self._version + 1
        names = self._names_unless_another_went_on()
        anchor = not copies or version - self._anchors[-1] >= self._anchor_every
        made = [_entry(weight, None if anchor else copies[weight.name], copies) for weight in weights]
        if not anchor and _is_nearly_raw([entry for entry, _ in made]):
            anchor, made = True, [_as_raw(entry, part, copies[entry.name]) for entry, part in made]
        entries, payload = [entry for entry, _ in made], [part for _, part in made]
        header = Header(version=version, base=None if anchor else self._version, tensors=tuple(entries))
        try:
            self._store.write(name_of(version), written(header, payload))
        except FileExistsError:
            raise self._another(version) from None
        self._version, self._copies, self._kinds = version, copies, kinds
        if anchor:
            self._anchors.append(version)
            self._delete_old()
        if not self._is_in_store:
            self._become_the_publisher(names)
        return version

    def _names_unless_another_went_on(self) -> set[str]:
        """The names in the store, which decide which publisher is the stream's. Numbers alone do not: another publisher
        deletes old versions, and a user may clear the store, so a number can be free again."""
        names = set(self._store.names())
        newest = max(versions(names), default=0)
        if newest > self._version:
            raise self._another(newest)
        if self._is_in_store and not {self._name, name_of(self._version)} <= names:
            raise InvalidArgument(
                f"{self._store} no longer has version {self._version} of this publisher: the store was cleared, and "
                "another publisher may have begun there. Nothing was written; end this publisher, or make a new one if "
                "the stream is to go on from here"
            )
        return names

    def _become_the_publisher(self, names: set[str]) -> None:
        """`names`: before this publisher's first version. A publisher that came later is newer, so its name stays."""
        self._store.write(self._name, [f"{socket.gethostname()}, process {os.getpid()}\n".encode()])
        self._is_in_store = True
        for earlier in publishers(names):
            self._store.delete(earlier)

    def _another(self, version: int) -> InvalidArgument:
        return InvalidArgument(
            f"version {version} is in {self._store} already, and this publisher's last version is {self._version}: "
            "another publisher writes there, and a stream has one. Nothing was written; end one of the two, or give "
            "each a store of its own"
        )

    def _delete_old(self) -> None:
        self._anchors = self._anchors[-self._keep_anchors :]
        for version in versions(self._store.names()):
            if len(self._anchors) == self._keep_anchors and version < self._anchors[0]:
                self._store.delete(name_of(version))


def _is_nearly_raw(entries: Sequence[Entry]) -> bool:
    """Whether nearly all values are in the version: then it has all, so that no follower needs the version before."""
    whole = sum(entry.tensor_bytes for entry in entries)
    missing = sum(entry.tensor_bytes for entry in entries if entry.encoding != "raw")
    return missing * _NEARLY <= whole


def _as_raw(entry: Entry, part: Buffer, values: NDArray[np.uint8]) -> tuple[Entry, Buffer]:
    if entry.encoding == "raw":
        return entry, part
    changed = {"encoding": "raw", "bytes": values.size, "crc": entry.after}
    return entry.model_copy(update=changed), values.data


def _entry(weight: Weight, old: NDArray[np.uint8] | None, copies: dict[str, NDArray[np.uint8]]) -> tuple[Entry, Buffer]:
    """A tensor's entry and its part of the payload. The tensor's copy gets the current values."""
    core = load_core()
    after = core.crc32c(weight.bytes)
    changes = None
    if old is not None:
        copies[weight.name] = old
        changes = core.encode_changes(old, weight.bytes, weight.element_bytes, max(0, weight.bytes.size - 1))
    else:
        copies[weight.name] = weight.bytes.copy()
    # All values come from the copy, because training may change the tensor while the store writes.
    part: Buffer = copies[weight.name].data if changes is None else changes
    encoding: Encoding = "raw" if changes is None else "changes" if changes else "same"
    entry = Entry(
        name=weight.name,
        dtype=weight.dtype,
        shape=weight.shape,
        element_bytes=weight.element_bytes,
        encoding=encoding,
        bytes=len(part),
        crc=after if changes is None else core.crc32c(changes),
        after=after,
    )
    return entry, part

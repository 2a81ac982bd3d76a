# SPDX-License-Identifier: Apache-2.0
"""Seals: each proves that bytes come from a rank of this job in this call. A rank checks it before it unpickles.

Only a process that knows the job token can make a seal. A seal is HMAC-SHA256 over the sender's rank, the number of the
call, the size and the SHA-256 of the bytes. The key is derived, for this purpose only, from the token and from a fresh
random number of each rank: a rank does not accept a seal of another call, or from before the last `init()`. A seal does
not hide the bytes: a computer that sees the network's packets can read them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import struct
import threading
from collections import Counter
from dataclasses import dataclass

from hipress import runtime
from hipress.adapter.process_sets import ProcessSet, global_process_set
from hipress.errors import CorruptPayload, Refused

_PURPOSE = b"hipress objects, version 1"
_KEY, _CALLS = "key of objects", "calls with objects"
_NONCE_BYTES = 16
#: The size of the bytes, their SHA-256, and the HMAC of both.
_SEAL = struct.Struct("<Q32s32s")
SEAL_BYTES = _SEAL.size

_lock = threading.Lock()


@dataclass(frozen=True)
class Call:
    """One call, equal on all ranks: the `number`-th call of `what` with this `label` since init()."""

    what: str
    label: str
    number: int
    process_set: ProcessSet = global_process_set


def new_call(what: str, label: str, process_set: ProcessSet = global_process_set) -> Call:
    """The next call among the ranks of the set. Every one of them makes it before it waits for bytes: in the first call
    they agree on the key.
    """
    kept = runtime.current().kept
    _key(process_set)
    with _lock:
        calls: Counter[tuple[str, str]] = kept.setdefault(process_set.named(_CALLS), Counter())
        calls[what, label] += 1
        return Call(what, label, calls[what, label], process_set)


@dataclass(frozen=True)
class Seal:
    """The size and the SHA-256 of bytes, which a rank knows before it receives the bytes."""

    size: int
    digest: bytes

    def check(self, payload: bytes, sender: int, call: Call) -> bytes:
        """Returns `payload` if its sender has sealed it. Raises CorruptPayload, with the sender, if not."""
        if len(payload) != self.size or not hmac.compare_digest(hashlib.sha256(payload).digest(), self.digest):
            raise _forged(sender, call)
        return payload


def seal(payload: bytes, call: Call) -> bytes:
    """The seal (SEAL_BYTES bytes) that proves that this rank sends `payload` in this call."""
    return seal_of(runtime.rank(), payload, call)


def seal_of(sender: int, payload: bytes, call: Call) -> bytes:
    """The seal of any rank. Every rank knows the token, so it can make all seals."""
    digest = hashlib.sha256(payload).digest()
    return _SEAL.pack(len(payload), digest, _code(sender, call, len(payload), digest))


def open_seal(sealed: bytes, sender: int, call: Call) -> Seal:
    """The seal that rank `sender` has made in this call. Raises CorruptPayload, with the rank, for other bytes."""
    if len(sealed) != SEAL_BYTES:
        raise _forged(sender, call)
    size, digest, code = _SEAL.unpack(sealed)
    if not hmac.compare_digest(code, _code(sender, call, size, digest)):
        raise _forged(sender, call)
    return Seal(size, digest)


def _code(sender: int, call: Call, size: int, digest: bytes) -> bytes:
    about = json.dumps([call.what, call.label, call.number, sender, size, digest.hex()]).encode()
    return hmac.digest(_key(call.process_set), about, "sha256")


def _key(process_set: ProcessSet) -> bytes:
    """The key of a set, valid until shutdown(). In the first call all its ranks exchange their random numbers."""
    current = runtime.current()
    named = process_set.named(_KEY)
    with _lock:
        if named not in current.kept:
            if not current.place.token:
                raise Refused(
                    "this job has no token, so nothing proves that an object comes from one of its ranks: start all "
                    "ranks with one launcher, or give them the same HIPRESS_JOB_TOKEN"
                )
            nonce = secrets.token_bytes(_NONCE_BYTES)
            nonces = current.engine.allgather(named, nonce, among=process_set.among)
            current.kept[named] = derived_key(current.place.token, nonces)
        key: bytes = current.kept[named]
    return key


def derived_key(token: str, nonces: list[bytes]) -> bytes:
    """HKDF (RFC 5869) with SHA-256 of the token, salted with the ranks' random numbers."""
    salt = hashlib.sha256(b"".join(struct.pack("<Q", len(nonce)) + nonce for nonce in nonces)).digest()
    extracted = hmac.digest(salt, token.encode(), "sha256")
    return hmac.digest(extracted, _PURPOSE + b"\x01", "sha256")


def _forged(sender: int, call: Call) -> CorruptPayload:
    return CorruptPayload(
        f"{call.what} of '{call.label}' on rank {runtime.rank()}: the bytes that came as rank {sender}'s were not "
        f"sealed by rank {sender} in this call: they are damaged, forged or sent again, and were not used. If all "
        "ranks make the same calls in the same order, look for strangers on the network of this job"
    )

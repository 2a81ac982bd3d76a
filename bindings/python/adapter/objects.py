# SPDX-License-Identifier: Apache-2.0
"""Sends any object that pickle takes from one rank to all, or from all to all; sends plain values without pickle."""

from __future__ import annotations

import pickle
from typing import Any, TypeVar, cast

import numpy as np

from hipress import runtime
from hipress.adapter import collectives, plain_values, process_sets
from hipress.adapter.plain_values import DecodeOther, EncodeOther
from hipress.adapter.process_sets import ProcessSet, global_process_set
from hipress.adapter.sealed import SEAL_BYTES, new_call, open_seal, seal
from hipress.errors import Unsupported

_Object = TypeVar("_Object")

#: The first byte of a message of send_plain(): plain values follow, or the reason why the rank sends no values.
_VALUES, _REASON = b"=", b"!"


def broadcast_object(
    obj: _Object | None = None,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> _Object:
    """Rank `root_rank`'s `obj`, on every rank. Other ranks' `obj` is ignored.

    Arguments:
        obj: any object that pickle takes.
        root_rank: the rank that sends.
        name: name in errors; ranks match calls of the same name by their order.
        process_set: the ranks that call it, the root among them.

    Unpickling runs the sender's code. So a rank unpickles bytes only with the proof that a rank that knows the job
    token has sent them in this call: see `hipress.adapter.sealed`. A process that knows the token can run code on the
    ranks. For tensors and plain values use `broadcast()` and broadcast_optimizer_state(), which pickle nothing.

    Raises CorruptPayload, with the sender, for bytes without that proof, and does not unpickle them.
    """
    process_sets.check(process_set)
    payload = pickle.dumps(obj) if runtime.rank() == root_rank else None
    received = broadcast_bytes(payload, root_rank, name or "object", "broadcast_object()", process_set)
    return cast("_Object", obj if payload is not None else pickle.loads(received))


def allgather_object(
    obj: _Object, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[_Object]:
    """The `obj` of every rank of the set, in rank order.

    Arguments, errors and the warning about unpickling are as in broadcast_object().
    """
    payload = pickle.dumps(obj)
    label = name or "object"
    call = new_call("allgather_object()", label, process_sets.check(process_set))
    senders = process_set.ranks
    proofs = _gathered(seal(payload, call), f"{label}.seals", process_set)
    seals = [open_seal(proof, sender, call) for sender, proof in zip(senders, proofs, strict=True)]
    parts = _gathered(payload, f"{label}.bytes", process_set)
    checked = [own.check(part, sender, call) for sender, own, part in zip(senders, seals, parts, strict=True)]
    return [pickle.loads(part) for part in checked]


def broadcast_bytes(
    payload: bytes | None, root_rank: int, label: str, what: str, process_set: ProcessSet = global_process_set
) -> bytes:
    """Rank `root_rank`'s `payload`, on every rank; the other ranks give None. `what` names the call in errors.

    Raises CorruptPayload if that rank has not sent it in this call.
    """
    call = new_call(what, label, process_set)
    if payload is not None:
        _broadcast(bytearray(seal(payload, call)), root_rank, f"{label}.seal", process_set)
        _broadcast(bytearray(payload), root_rank, f"{label}.bytes", process_set)
        return payload
    proof = bytearray(SEAL_BYTES)
    _broadcast(proof, root_rank, f"{label}.seal", process_set)
    known = open_seal(bytes(proof), root_rank, call)
    received = bytearray(known.size)
    _broadcast(received, root_rank, f"{label}.bytes", process_set)
    return known.check(bytes(received), root_rank, call)


def send_plain(
    value: Any,
    root_rank: int,
    label: str,
    what: str,
    other: EncodeOther,
    where: str,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Sends plain values, and values that `other` encodes, from rank `root_rank` to all others, which call
    receive_plain().

    Raises Unsupported, on every rank, with the first value that is neither plain nor encoded by `other`.
    """
    try:
        encoded = plain_values.to_json(value, other, where)
    except Unsupported as error:
        # The other ranks wait for the values, so they get the reason instead.
        broadcast_bytes(_REASON + str(error).encode(), root_rank, label, what, process_set)
        raise _not_plain(what, str(error)) from None
    broadcast_bytes(_VALUES + encoded, root_rank, label, what, process_set)


def receive_plain(
    root_rank: int, label: str, what: str, other: DecodeOther, process_set: ProcessSet = global_process_set
) -> Any:
    """See send_plain(). Also raises CorruptPayload if rank `root_rank` has not sent these bytes."""
    received = broadcast_bytes(None, root_rank, label, what, process_set)
    kind, content = received[:1], received[1:]
    if kind == _REASON:
        raise _not_plain(what, content.decode())
    return plain_values.from_json(content, other)


def _not_plain(what: str, reason: str) -> Unsupported:
    return Unsupported(f"{what}: {reason}. If you trust all ranks, broadcast_object() sends it pickled")


def _broadcast(values: bytearray, root_rank: int, name: str, process_set: ProcessSet) -> None:
    buffer = np.frombuffer(values, np.uint8)
    collectives.broadcast(buffer, buffer, root_rank=root_rank, name=name, process_set=process_set).wait()


def _gathered(mine: bytes, name: str, process_set: ProcessSet) -> list[bytes]:
    """The bytes of all ranks of the set, in rank order."""
    values = np.frombuffer(mine, np.uint8)
    rows, sizes = collectives.allgather_with_rows(values, name=name, process_set=process_set).wait()
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    return [part.tobytes() for part in parts]

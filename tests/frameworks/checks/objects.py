# SPDX-License-Identifier: Apache-2.0
"""Collectives of Python objects."""

from __future__ import annotations

import hashlib
import hmac
import os
import pickle
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest

from hipress.adapter import collectives, sealed
from hipress.errors import CorruptPayload
from tests.frameworks.adapters.adapter import Adapter


def check_broadcast_object(adapter: Adapter) -> None:
    hvd = adapter.module
    for root in range(hvd.size()):
        assert hvd.broadcast_object({"from": hvd.rank(), "list": [1, None]}, root_rank=root) == {
            "from": root,
            "list": [1, None],
        }


def check_allgather_object(adapter: Adapter) -> None:
    hvd = adapter.module
    assert hvd.allgather_object("x" * hvd.rank(), name="texts") == ["x" * rank for rank in range(hvd.size())]


class _Touch:
    """An object whose unpickling makes a file, as a stranger's code could."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[object, ...]:
        return os.mknod, (str(self._file),)


def _send(name: str, proof: bytes, payload: bytes | None = None) -> None:
    """Sends what rank 0's broadcast_object() sends, with a proof of the test. Without a payload it stops where the
    other ranks refuse the proof."""
    for part, values in (("seal", proof), ("bytes", payload)):
        if values is not None:
            buffer = np.frombuffer(bytearray(values), np.uint8)
            collectives.broadcast(buffer, buffer, root_rank=0, name=f"{name}.{part}").wait()


def _refused(adapter: Adapter, name: str, sender: int = 0) -> None:
    with pytest.raises(CorruptPayload, match=f"rank {sender}.*forged or sent again"):
        adapter.module.broadcast_object(None, root_rank=0, name=name)


def check_an_object_that_proves_nothing_is_not_unpickled(adapter: Adapter) -> None:
    hvd = adapter.module
    hvd.broadcast_object(None)  # after this call all ranks have the key
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "was run"
        forged = pickle.dumps(_Touch(file))
        digest = hashlib.sha256(forged).digest()
        if hvd.rank() != 0:
            _refused(adapter, "without the token")
            _refused(adapter, "other bytes")
            _refused(adapter, "of another name")
            _refused(adapter, "a size that nobody has")
        elif hvd.size() > 1:
            key = sealed.derived_key("a guess", [b"nonce"] * hvd.size())
            code = hmac.digest(key, digest, "sha256")
            _send("without the token", struct.pack("<Q32s32s", len(forged), digest, code))
            honest = sealed.seal(bytes(len(forged)), sealed.Call("broadcast_object()", "other bytes", 1))
            _send("other bytes", honest, forged)
            # A rank has made this seal, but for a call with another name.
            _send("of another name", sealed.seal(forged, sealed.Call("broadcast_object()", "other bytes", 1)))
            _send("a size that nobody has", struct.pack("<Q32s32s", 2**62, digest, code))
        assert not file.exists()
        pickle.loads(forged)
        assert file.exists()  # unpickling would have run the code
    hvd.barrier()


def check_an_object_of_an_earlier_call_is_refused(adapter: Adapter) -> None:
    hvd = adapter.module
    assert hvd.broadcast_object("first", root_rank=0, name="again") == "first"
    if hvd.rank() != 0:
        _refused(adapter, "again")
    elif hvd.size() > 1:
        _send("again", sealed.seal(pickle.dumps("first"), sealed.Call("broadcast_object()", "again", 1)))
    hvd.barrier()


def check_a_gathered_object_must_be_of_the_rank_that_sends_it(adapter: Adapter) -> None:
    hvd = adapter.module
    hvd.broadcast_object(None)
    last = hvd.size() - 1
    if hvd.rank() != last:
        with pytest.raises(CorruptPayload, match=f"rank {last}'s were not sealed by rank {last}"):
            hvd.allgather_object("mine", name="of all")
    elif last > 0:
        # The last rank knows the token, and claims to be rank 0.
        call = sealed.Call("allgather_object()", "of all", 1)
        proof = np.frombuffer(sealed.seal_of(0, pickle.dumps("mine"), call), np.uint8)
        collectives.allgather(proof, name="of all.seals").wait()
    hvd.barrier()

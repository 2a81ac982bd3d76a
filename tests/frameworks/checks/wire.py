# SPDX-License-Identifier: Apache-2.0
"""The same input gives the same bytes on the wire and the same result in all frameworks."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from tests.frameworks.adapters.adapter import Adapter
from tests.frameworks.checks.training import CODECS
from tests.frameworks.checks.values import normal

COUNT = 50_001


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def check_bytes_on_the_wire(adapter: Adapter) -> None:
    """Writes for each codec this rank's message of fixed values, the bytes of an all-reduce, and the result.

    test_same_in_all.py compares the files.
    """
    hvd = adapter.module
    values = normal(hvd.rank(), COUNT)
    found = {}
    for codec in CODECS:
        message = adapter.encode(codec, values, seed=3, step=4, tensor=5) if codec not in ("none", "fp16") else b""
        before = hvd.counters()
        result = adapter.call("allreduce", values, name=f"wire.{codec}", codec=codec)
        hvd.barrier()
        after = hvd.counters()
        sent = {key: after[key] - before[key] for key in ("bytes_sent", "messages_sent")}
        found[codec] = {"message": _digest(message), "result": _digest(result.tobytes()), **sent}
    directory = Path(os.environ["HIPRESS_CONFORMANCE"])
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{adapter.name}.{hvd.size()}.{hvd.rank()}.json"
    part = Path(f"{file}.part")
    part.write_text(json.dumps(found, indent=1))
    part.rename(file)  # another framework's tests, which run at the same time, must not read half of it

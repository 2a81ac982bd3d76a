# SPDX-License-Identifier: Apache-2.0
"""A rank that sums large and many small tensors. Rank 0 comes late, so that messages of the others wait for it.

Arguments: the number of large tensors (4 MiB each), and of small ones (8 KiB each). Prints the MiB of shared memory
that are in use, and "summed".
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

from hipress import runtime
from hipress._library import load_core
from tests.core.casync.engine_world import spec


def used() -> tuple[int, int]:
    """MiB in /dev/shm, and in System V segments."""
    posix = 0
    if os.path.isdir("/dev/shm"):
        found = os.statvfs("/dev/shm")
        posix = (found.f_blocks - found.f_bfree) * found.f_frsize
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return posix >> 20, sum(int(row[3]) for row in rows) >> 20


def main() -> None:
    large, small = map(int, sys.argv[1:])
    load_core()
    runtime.init(timeout=20.0, start_timeout=20.0)
    engine, size = runtime.current().engine, runtime.size()
    values = [np.full(1 << 20, runtime.rank() + 1, np.float32) for _ in range(large)]
    values += [np.full(2000, runtime.rank() + 1, np.float32) for _ in range(small)]
    handles = engine.declare([spec(f"w{number}", each, op="sum") for number, each in enumerate(values)])
    if runtime.rank() == 0:
        time.sleep(0.3)
    operations = [engine.submit(handle, each, each) for handle, each in zip(handles, values, strict=True)]
    for operation in operations:
        engine.wait(operation)
    assert all((each == size * (size + 1) // 2).all() for each in values)
    print("summed", *used(), flush=True)
    runtime.shutdown()


if __name__ == "__main__":
    main()

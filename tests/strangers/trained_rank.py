# SPDX-License-Identifier: Apache-2.0
"""A rank that sums made-up gradients until its standard input is closed, and prints the result as JSON.

It prints its data port when it has begun. Strangers attack while it runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import socket
import sys
import time

import numpy as np

from hipress import _core, runtime
from tests.core.casync.engine_world import spec

TENSORS = {"large": (600_000, "onebit"), "raw": (50_000, "none"), "small": (300, "none")}


def data_ports() -> list[int]:
    """The ports on which this process listens, except rank 0's control port, which was opened first."""
    ports = []
    for entry in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            with socket.socket(fileno=os.dup(int(entry))) as each:
                if each.family in (socket.AF_INET, socket.AF_INET6) and each.getsockopt(socket.SOL_SOCKET, 30):
                    ports.append(each.getsockname()[1])
        except OSError:
            continue
    return ports[1:] if runtime.rank() == 0 else ports


def shared_modes() -> list[str]:
    """The permissions, as octal digits, of the System V shared memory that this process created."""
    with open("/proc/sysvipc/shm", encoding="ascii") as table:
        rows = [line.split() for line in table][1:]
    return [row[2][-3:] for row in rows if int(row[4]) == os.getpid()]


def resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def main() -> None:
    runtime.init(timeout=20.0)
    engine: _core.Engine = runtime.current().engine
    random = np.random.default_rng(runtime.rank())
    gradients = {name: random.standard_normal(size).astype(np.float32) for name, (size, _) in TENSORS.items()}
    handles = engine.declare([spec(name, gradients[name], codec=codec) for name, (_, codec) in TENSORS.items()])
    state = hashlib.sha256()
    steps = 0
    times: list[float] = []
    stop = np.zeros(1, np.float32)
    (last,) = engine.declare([spec("stop", stop)])
    outputs = {name: np.zeros_like(gradient) for name, gradient in gradients.items()}
    while True:
        if steps == 20:
            say(begun=True, ports=data_ports(), resident=resident_mb(), shared=shared_modes())
        start = time.monotonic()
        pairs = zip(handles, gradients, strict=True)
        for operation in [engine.submit(handle, gradients[name], outputs[name]) for handle, name in pairs]:
            engine.wait(operation)
        times.append(time.monotonic() - start)
        for output in outputs.values():
            state.update(output.tobytes())
        # A flag in the sum makes all ranks stop after the same step.
        flag = np.full(1, float(bool(select.select([sys.stdin], [], [], 0)[0])), np.float32)
        engine.wait(engine.submit(last, flag, stop))
        steps += 1
        if stop[0] > 0:
            break
    median = float(np.median(times[20:]))
    counters = engine.counters()
    say(digest=state.hexdigest(), steps=steps, median=median, resident=resident_mb(), counters=counters)
    runtime.shutdown()


if __name__ == "__main__":
    main()

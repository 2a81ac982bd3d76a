# SPDX-License-Identifier: Apache-2.0
"""The program of a rank of a FaultJob. It runs one session after the other, each from init() to shutdown(), and trains
with NumPy.

It writes its facts as lines of JSON into a file of its own. Because it does not import torch, it starts in a fraction
of a second.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress import _core, runtime
from hipress.errors import HipressError

#: Seconds until a joined thread disappears from /proc.
_SETTLE = 0.5
_PR_SET_PDEATHSIG = 1
#: Matches the lines of /proc/self/maps that name shared memory.
_SHARED = re.compile(" /(SYSV|dev/shm/)")


class Diary:
    """Writes facts with their time; all processes of a machine read the same clock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def say(self, event: str, **facts: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"event": event, "time": time.monotonic(), **facts}) + "\n")


def holdings() -> dict[str, list[str]]:
    """The threads, descriptors and mappings of this process, and the shared memory in its namespaces."""
    tasks = [Path(f"/proc/self/task/{task}/comm") for task in os.listdir("/proc/self/task")]
    descriptors = []
    for number in os.listdir("/proc/self/fd"):
        try:
            descriptors.append(os.readlink(f"/proc/self/fd/{number}").split("[")[0])
        except FileNotFoundError:
            continue  # the descriptor of the listing itself is closed now
    mapped = [line.split()[5] for line in Path("/proc/self/maps").read_text().splitlines() if _SHARED.search(line)]
    return {
        "threads": sorted(path.read_text().strip() for path in tasks if path.exists()),
        "descriptors": sorted(descriptors),
        "mapped segments": sorted(mapped),
        "shared files": sorted(os.listdir("/dev/shm")),
        "shared segments": [line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]],
    }


def settled(expected: dict[str, list[str]]) -> dict[str, list[str]]:
    """Polls holdings() for up to _SETTLE seconds until it equals `expected`. Returns the last value."""
    end = time.monotonic() + _SETTLE
    while (found := holdings()) != expected and time.monotonic() < end:
        time.sleep(0.02)
    return found


class Training:
    """Parameters with the same initial values on every rank, which averaged gradients update."""

    def __init__(self, session: dict[str, Any]) -> None:
        self.engine = runtime.current().engine
        self.parameters = [np.zeros(size, np.float32) for size in session["sizes"]]
        specs = [
            _core.TensorSpec(
                f"layer{index}.weight",
                count=values.size,
                shape=str([values.size]),
                codec=session["codec"],
                topology=session["topology"],
                partitions=session.get("partitions", 0),
            )
            for index, values in enumerate(self.parameters)
        ]
        self.handles = self.engine.agree("parameters", specs)
        self.random = np.random.default_rng(runtime.rank())

    def step(self) -> None:
        """Updates all parameters, or raises an error and updates none."""
        gradients: list[NDArray[np.float32]] = []
        operations = []
        for handle, values in zip(self.handles, self.parameters, strict=True):
            gradients.append(self.random.standard_normal(values.size, np.float32))
            operations.append(self.engine.submit(handle, gradients[-1], gradients[-1]))
        for operation in operations:
            self.engine.wait(operation)
        for values, gradient in zip(self.parameters, gradients, strict=True):
            values -= np.float32(0.1) * gradient

    def digest(self) -> str:
        return hashlib.sha256(b"".join(values.tobytes() for values in self.parameters)).hexdigest()[:16]


def run(session: dict[str, Any], diary: Diary) -> bool:
    """Runs one session. Returns whether it ended without an error."""
    time.sleep(session.get("delay", 0.0))
    step, digest, training = -1, "", None
    start = time.monotonic()
    try:
        diary.say("init")
        runtime.init()
        training = Training(session)
        diary.say("ready", seconds=time.monotonic() - start)
        for step in range(session["steps"]):
            digest = training.digest()
            start = time.monotonic()
            training.step()
            diary.say("step", step=step, digest=training.digest(), seconds=time.monotonic() - start)
            time.sleep(session.get("pause", 0.0))
    except HipressError as error:
        unchanged = training is None or step < 0 or training.digest() == digest
        waited = time.monotonic() - start
        diary.say(
            "error", kind=type(error).__name__, message=str(error), step=step, unchanged=unchanged, seconds=waited
        )
        return False
    finally:
        start = time.monotonic()
        runtime.shutdown()
        diary.say("shutdown", seconds=time.monotonic() - start)
    return True


def main() -> int:
    """# the kernel kills an orphan"""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))  # Nobody is left to end it.
    given = json.loads(sys.argv[1])
    diary = Diary(Path(given["diary"]))
    before = holdings()
    well = True
    for number, session in enumerate(given["sessions"]):
        os.environ.update(session["env"])
        well &= run(session, diary)
        diary.say("over", session=number, before=before, after=settled(before))
    return 0 if well else 3


if __name__ == "__main__":
    sys.exit(main())

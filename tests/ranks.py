# SPDX-License-Identifier: Apache-2.0
"""Runs a function of a test module on every rank; each rank is a process.

Importing a framework takes longer than most tests. The processes therefore stay, and each test starts a new world among
them. A function must not change a module, because the next test runs in the same processes; the order of tests differs
between runs.
"""

from __future__ import annotations

import atexit
import os
import pickle
import secrets
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

_WORKER = """
import importlib, os, pickle, struct, sys
sys.path.insert(0, sys.argv[1])
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # libraries such as UCX print to descriptor 1
exec(sys.argv[2])
import hipress.runtime
while size := sys.stdin.buffer.read(4):
    module, function, arguments, variables = pickle.loads(sys.stdin.buffer.read(*struct.unpack("<I", size)))
    os.environ.update(variables)
    try:
        result = getattr(importlib.import_module(module), function)(*arguments)
    except BaseException as error:  # pytest.fail() and pytest.skip() raise such exceptions
        result = error
    hipress.runtime.shutdown()
    for name in variables:
        del os.environ[name]
    try:
        answer = pickle.dumps(result)
    except Exception:  # some errors of TensorFlow cannot be pickled
        answer = pickle.dumps(RuntimeError(f"{type(result).__name__}: {result}"))
    answers.write(struct.pack("<I", len(answer)) + answer)
    answers.flush()
"""


class _Worker:
    def __init__(self, preparation: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(ROOT), preparation],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean_environment(),
        )

    def start(self, call: tuple[Any, ...]) -> None:
        message = pickle.dumps(call)
        assert self._process.stdin is not None
        self._process.stdin.write(struct.pack("<I", len(message)) + message)
        self._process.stdin.flush()

    def result(self) -> Any:
        assert self._process.stdout is not None
        size = self._process.stdout.read(4)
        assert len(size) == 4, "a rank died"
        return pickle.loads(self._process.stdout.read(*struct.unpack("<I", size)))

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


class Ranks:
    """Rank processes. Each has run the Python code `preparation`, which imports a framework and limits it to one
    thread."""

    def __init__(self, preparation: str) -> None:
        self._preparation = preparation
        self._workers: list[_Worker] = []
        atexit.register(self.end)

    def end(self) -> None:
        """Ends the processes; the next test starts new ones."""
        while self._workers:
            self._workers.pop().end()

    def outcomes(self, function: Any, world_size: int, *arguments: Any, **variables: str) -> list[Any]:
        """Runs `function(*arguments)` on every rank. Returns by rank the result, or the exception that the function
        raised.

        `function` is a function at the top level of a test module, and calls `init()` itself. `variables`: environment
        variables of the ranks.
        """
        while len(self._workers) < world_size:
            self._workers.append(_Worker(self._preparation))
        place = {"HIPRESS_SIZE": str(world_size), "HIPRESS_LOCAL_SIZE": str(world_size)}
        place |= {"HIPRESS_RENDEZVOUS": f"127.0.0.1:{free_port()}", "HIPRESS_JOB_TOKEN": secrets.token_hex(8)}
        ranks = self._workers[:world_size]
        try:
            for rank, worker in enumerate(ranks):
                own = {**place, "HIPRESS_RANK": str(rank), "HIPRESS_LOCAL_RANK": str(rank), **variables}
                worker.start((function.__module__, function.__name__, arguments, own))
            return [worker.result() for worker in ranks]
        except BaseException:
            # After a timeout or the death of a rank, the processes of this world must not serve the next test.
            self.end()
            raise

    def run(self, function: Any, world_size: int, *arguments: Any, **variables: str) -> list[Any]:
        """Like outcomes(), but raises the exception of the lowest rank that has one."""
        results = self.outcomes(function, world_size, *arguments, **variables)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results


def clean_environment(**extra: str) -> dict[str, str]:
    """This process's environment without the variables of a launcher."""
    left = ("HIPRESS_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_")
    return {**{key: value for key, value in os.environ.items() if not key.startswith(left)}, **extra}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

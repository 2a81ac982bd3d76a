# SPDX-License-Identifier: Apache-2.0
"""Jobs that tests disturb: real processes on this machine or on the hosts of an emulated cluster, with helpers that
check them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ranks import clean_environment, free_port

ROOT = Path(__file__).parents[2]
_PROGRAM = Path(__file__).with_name("rank_program.py")
#: On an emulated host no other program listens. Each job takes the next port, so no late packet reaches another job.
_FIRST_PORT = 29400
TYPED = {"PeerLost", "Timeout", "CorruptPayload", "TransportError", "Mismatch", "Refused"}

Fact = dict[str, Any]


class Broken(AssertionError):
    """A job has broken an invariant."""


@dataclass
class Session:
    """A job from one init() to the next shutdown(): its processes and their work. `ranks[i]` is the rank of process
    i."""

    ranks: Sequence[int | None]
    topology: str = "ps"
    codec: str = "none"
    sizes: Sequence[int] = (20_000, 300)
    steps: int = 1_000_000
    pause: float = 0.01
    delays: dict[int, float] = field(default_factory=dict)
    own_steps: dict[int, int] = field(default_factory=dict)
    timeout: float = 30.0
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(rank is not None for rank in self.ranks)


class FaultJob:
    """Starts one process per rank of the first session, `per_node` of them on each host of `network`."""

    def __init__(
        self, folder: Path, sessions: Session | Sequence[Session], network: Any = None, per_node: int = 1
    ) -> None:
        self.folder = folder
        self.sessions = [sessions] if isinstance(sessions, Session) else list(sessions)
        self.network = network
        self.per_node = per_node if network is not None else len(self.sessions[0].ranks)
        self.places = [self._rendezvous(number) for number in range(len(self.sessions))]
        self.logs = [(folder / f"log{index}").open("wb") for index in range(self.count)]
        self.processes = [self._start(index) for index in range(self.count)]

    @property
    def count(self) -> int:
        return len(self.sessions[0].ranks)

    def _rendezvous(self, session: int) -> str:
        if self.network is None:
            return f"127.0.0.1:{free_port()}"
        first = next(index for index, rank in enumerate(self.sessions[session].ranks) if rank == 0)
        return f"10.77.0.{first // self.per_node + 1}:{_FIRST_PORT + next_port()}"

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        sessions = [self._given(number, index) for number in range(len(self.sessions))]
        given = {"diary": str(self.folder / f"diary{index}"), "sessions": [one for one in sessions if one is not None]}
        command = [sys.executable, str(_PROGRAM), json.dumps(given)]
        # Each process gets one thread: NumPy's default, a thread per core, would start dozens of threads for small
        # sums.
        variables = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        output: dict[str, Any] = {"stdout": self.logs[index], "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        if self.network is not None:
            process: subprocess.Popen[bytes] = self.network.popen(
                index // self.per_node, command, env=variables, **output
            )
            return process
        return subprocess.Popen(command, env=clean_environment(**variables), start_new_session=True, **output)

    def _given(self, number: int, index: int) -> Fact | None:
        session = self.sessions[number]
        rank = session.ranks[index] if index < len(session.ranks) else None
        if rank is None:
            return None
        environment = {
            "HIPRESS_SIZE": str(session.size),
            "HIPRESS_RANK": str(rank),
            # HiPress uses these two variables for its number of threads only; after a loss, hosts may keep different
            # numbers of ranks.
            "HIPRESS_LOCAL_SIZE": "1",
            "HIPRESS_LOCAL_RANK": "0",
            "HIPRESS_RENDEZVOUS": self.places[number],
            "HIPRESS_JOB_TOKEN": f"job{number}",
            "HIPRESS_TIMEOUT": str(session.timeout),
            **session.variables,
        }
        return {
            "env": environment,
            "topology": session.topology,
            "codec": session.codec,
            "sizes": list(session.sizes),
            "steps": session.own_steps.get(rank, session.steps),
            "pause": session.pause,
            "delay": session.delays.get(rank, 0.0),
        }

    def facts(self, index: int) -> list[Fact]:
        """All facts that a process has written until now."""
        file = self.folder / f"diary{index}"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []  # the last line may be incomplete
        return [json.loads(line) for line in lines]

    def fact(self, index: int, event: str, timeout: float, where: Callable[[Fact], bool] = lambda fact: True) -> Fact:
        """Waits for the first fact of this kind and returns it."""
        end = time.monotonic() + timeout
        while True:
            for fact in self.facts(index):
                if fact["event"] == event and where(fact):
                    return fact
            if time.monotonic() > end:
                # An error of another process may be the cause.
                errors = {other: found for other in range(self.count) if (found := self.errors(other))}
                raise Broken(
                    f"process {index}: no '{event}' within {timeout:g} s; last: {self.facts(index)[-2:]}; "
                    f"errors: {errors}\n{self.log(index)}"
                )
            time.sleep(0.02)

    def errors(self, index: int) -> list[Fact]:
        """The errors that a process has recorded until now."""
        return [fact for fact in self.facts(index) if fact["event"] == "error"]

    def log(self, index: int) -> str:
        return (self.folder / f"log{index}").read_text(errors="replace")[-3000:]

    def running(self, steps: int = 3, timeout: float = 60.0) -> None:
        """Waits until every rank has finished step number `steps`."""
        for index in range(self.count):
            self.fact(index, "step", timeout, lambda fact: bool(fact["step"] >= steps))

    def progress(self, indices: Sequence[int], steps: int, timeout: float) -> None:
        """Waits until each process of `indices` has made `steps` more steps."""
        for index in indices:
            now = max((fact["step"] for fact in self.facts(index) if fact["event"] == "step"), default=-1)
            self.fact(index, "step", timeout, lambda fact, aim=now + steps: bool(fact["step"] >= aim))  # type: ignore[misc]

    def signal(self, index: int, number: int) -> float:
        """Sends a signal to the process and to the helper that entered the host for it. Returns the time."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.processes[index].pid, number)
        return time.monotonic()

    def wait(self, index: int, timeout: float) -> int:
        """Waits for a process to end and returns its exit code."""
        process, end = self.processes[index], time.monotonic() + timeout
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(min(1.0, max(0.0, end - time.monotonic())))
            if time.monotonic() > end:
                raise Broken(f"process {index} hangs: {self.facts(index)[-2:]}\n{stacks(process.pid)}{self.log(index)}")
            # The helper that entered the host stops itself when it sees its child stopped, and does not go on when the
            # child goes on.
            self.signal(index, signal.SIGCONT)

    def end(self) -> None:
        for index in range(self.count):
            self.signal(index, signal.SIGKILL)
        for process in self.processes:
            process.wait(30.0)
        for log in self.logs:
            log.close()

    def __enter__(self) -> FaultJob:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


_ports = iter(range(10_000))


def next_port() -> int:
    return next(_ports)


def stacks(process: int) -> str:
    """For reports of hangs: the kernel stacks of the threads in a session's processes."""
    said = ""
    for directory in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if directory.name.isdigit() and os.getsid(int(directory.name)) == process:
                for task in (directory / "task").iterdir():
                    said += f"{task}: {(task / 'comm').read_text().strip()} {(task / 'wchan').read_text()}\n"
    return said

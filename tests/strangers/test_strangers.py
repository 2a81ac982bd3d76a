# SPDX-License-Identifier: Apache-2.0
"""A process without the job token can reach the ranks' ports, but changes no value, memory, time or error of the
job."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import libucx
import pytest

from tests.ranks import free_port

pytestmark = pytest.mark.slow

_HERE = Path(__file__).parent
_UCX = Path(libucx.__file__).parent
#: So long do the strangers of a test try.
_SECONDS = 4.0


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers")
    ucx = [f"-I{_UCX}/include", f"-L{_UCX}/lib", f"-Wl,-rpath,{_UCX}/lib", "-Wl,--allow-shlib-undefined"]
    libraries = ["-lucp", "-lucs"]
    _compile("g++", "-std=c++20", "-O1", _HERE / "stranger.cc", "-o", folder / "stranger", *ucx, *libraries)
    _compile("gcc", "-shared", "-fPIC", _HERE / "no_filter.c", "-o", folder / "no_filter.so", "-ldl")
    return folder


def _compile(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=120)


class Job:
    """Two ranks on this machine that train until end(), and the facts that they printed."""

    def __init__(self, preload: Path | None, **more: str) -> None:
        variables = {
            **os.environ,
            "HIPRESS_RENDEZVOUS": f"127.0.0.1:{free_port()}",
            "HIPRESS_JOB_TOKEN": "only the ranks know it",
            "HIPRESS_SIZE": "2",
            "HIPRESS_LOCAL_SIZE": "2",
            "PYTHONPATH": str(_HERE.parents[1]),
            **more,
            **({"LD_PRELOAD": str(preload)} if preload else {}),
        }
        self.processes = []
        for rank in range(2):
            place = {"HIPRESS_RANK": str(rank), "HIPRESS_LOCAL_RANK": str(rank)}
            command = [sys.executable, str(_HERE / "trained_rank.py")]
            self.processes.append(
                subprocess.Popen(
                    command,
                    env=variables | place,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        self.begun = [self._fact(process) for process in self.processes]

    @staticmethod
    def _fact(process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise AssertionError(process.communicate(timeout=20)[1])
        fact: dict[str, Any] = json.loads(line)
        return fact

    def ports(self) -> list[int]:
        return [port for fact in self.begun for port in fact["ports"]]

    def end(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Ends the ranks. Returns their last facts, and their lines on stderr about strangers."""
        facts = []
        lines: list[str] = []
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None  # communicate() would flush it
        for process in self.processes:
            output, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
            facts.append(json.loads(output.splitlines()[-1]))
            lines += [line for line in errors.splitlines() if "docs/security.md" in line]
        return facts, lines


@contextmanager
def running(preload: Path | None = None, **more: str) -> Iterator[Job]:
    job = Job(preload, **more)
    try:
        yield job
    finally:
        for process in job.processes:
            process.kill()
            process.wait()


def garbage(port: int, seconds: float) -> None:
    """Opens raw connections that send random bytes, or send nothing and stay open."""
    end = time.monotonic() + seconds
    with ExitStack() as kept:
        for _ in range(100):
            connection = kept.enter_context(socket.socket())
            connection.settimeout(0.2)
            try:
                connection.connect(("127.0.0.1", port))
                connection.send(os.urandom(200))
            except OSError:
                time.sleep(0.01)
        time.sleep(max(0.0, end - time.monotonic()))


def attack(job: Job, built: Path, messages: int = 0) -> int:
    """Runs all strangers, on a busy machine until each has sent so many messages. Returns the number of messages that
    UCX took from them."""
    strangers = [
        subprocess.Popen(
            [str(built / "stranger"), str(port), str(_SECONDS), str(messages)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for port in job.ports()
    ]
    threads = [threading.Thread(target=garbage, args=(port, _SECONDS)) for port in job.ports()]
    for thread in threads:
        thread.start()
    taken = 0
    for stranger in strangers:
        taken += int(stranger.communicate(timeout=60)[0].splitlines()[-1])  # UCX's complaints are above the last line
    for thread in threads:
        thread.join()
    return taken


def check_undisturbed(job: Job, facts: list[dict[str, Any]], lines: list[str], about: Callable[[str], bool]) -> None:
    assert facts[0]["digest"] == facts[1]["digest"]
    for rank, (begun, fact) in enumerate(zip(job.begun, facts, strict=True)):
        assert fact["steps"] > 30
        assert fact["counters"]["strangers_dropped"] > 0
        assert fact["resident"] <= begun["resident"] * 1.05 + 4
        assert len([line for line in lines if f"rank {rank}: " in line and about(line)]) == 1


def test_closed_port_lets_nobody_in(built: Path) -> None:
    with running(UCX_TLS="tcp") as job:
        attack(job, built)
        facts, lines = job.end()
        check_undisturbed(job, facts, lines, lambda line: "does not belong to this job" in line)
        assert len(lines) == 2


def test_messages_without_proof_are_dropped_where_the_port_stays_open(built: Path) -> None:
    with running(built / "no_filter.so", UCX_TLS="tcp") as job:
        taken = attack(job, built, messages=300)
        facts, lines = job.end()
        check_undisturbed(job, facts, lines, lambda line: "does not belong to this job" in line)
        assert taken >= 600
        assert len([line for line in lines if "strangers may connect" in line]) == 2


def test_shared_memory_is_the_users_alone() -> None:
    with running(UCX_TLS="sysv,tcp") as job:
        for fact in job.begun:
            assert fact["shared"]
            assert set(fact["shared"]) == {"600"}
        job.end()

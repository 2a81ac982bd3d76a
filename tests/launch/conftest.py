# SPDX-License-Identifier: Apache-2.0
"""Runs `hipress run` in a process of its own, as users do, and checks that the job leaves no process behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

#: Seconds for an event that happens at once on an idle machine.
PATIENCE = 30.0
HIPRESS = (sys.executable, "-m", "hipress.cli")

Start = Callable[..., "subprocess.Popen[bytes]"]


def clean_environment() -> dict[str, str]:
    """This process's environment without the variables that a launcher around the tests may have set."""
    launcher = ("HIPRESS_", "HOROVOD_", "TORCHELASTIC_", "MASTER_", "LOCAL_", "OMPI_", "PMI", "MPI_", "SLURM_")
    launcher += ("OMP_NUM_THREADS", "RANK", "WORLD_SIZE", "PYTHONUNBUF")
    return {key: value for key, value in os.environ.items() if not key.startswith(launcher)}


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Returns once `condition` holds; fails the test with the text `what` if it never holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"waited {PATIENCE:g} s for: {what}")
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether process `pid` is alive; a zombie is not, whichever process has to wait for it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def assert_gone(pids: list[int]) -> None:
    """Fails the test unless all these processes end; a kill takes a moment to arrive."""
    wait_until(lambda: not any(map(is_running, pids)), f"the end of the processes {pids}")


def read_pids(directory: Path, count: int) -> list[int]:
    """The process ids in `count` files *.pid of `directory`, once all files are complete."""

    def written() -> list[str]:
        return [text for file in directory.glob("*.pid") if (text := file.read_text()).endswith("\n")]

    wait_until(lambda: len(written()) >= count, f"the start of {count} processes")
    return [int(text) for text in written()]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `hipress run ARGUMENTS...`; kills it at the end of the test if it still runs."""
    processes: list[subprocess.Popen[bytes]] = []

    def start_one(*arguments: str, env: dict[str, str] | None = None, **options: object) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process: subprocess.Popen[bytes] = subprocess.Popen(
            [*HIPRESS, "run", *arguments],
            env=clean_environment() | (env or {}),
            **{**pipes, **options},  # type: ignore[call-overload]
        )
        processes.append(process)
        return process

    yield start_one
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.communicate()


@pytest.fixture
def run(start: Start) -> Callable[..., tuple[int, bytes, bytes]]:
    """Runs `hipress run ARGUMENTS...` to its end. Returns exit code, stdout and stderr."""

    def run_one(*arguments: str, input: bytes | None = None, **options: object) -> tuple[int, bytes, bytes]:
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = start(*arguments, **options)
        out, err = process.communicate(input, timeout=PATIENCE)
        return process.returncode, out, err

    return run_one

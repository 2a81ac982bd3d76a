# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of a job on this machine, merges their output, and ends every process that they have started."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from hipress.errors import InvalidArgument
from hipress.launch.job import Job
from hipress.launch.rank import Rank
from hipress.launch.rank_output import RankStream
from hipress.launch.rendezvous.place import Place
from hipress.launch.rendezvous.torch_variables import chosen_master, master_variables, place_variables, reserved

#: Exit codes, with the meaning of shells.
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127


@dataclass(frozen=True)
class LaunchOptions:
    """The command of a job, its number of ranks `size`, and its settings. Times are in seconds."""

    command: tuple[str, ...]
    size: int
    env: Mapping[str, str] = field(default_factory=dict)  # Added to this process' environment.
    timeout: float | None = None  # Of the whole job; None: no deadline.
    grace: float = 5.0  # Time between asking a rank to end (SIGTERM, SIGINT) and killing it.
    prefix: bool = True  # Mark each line with its rank.
    output_dir: Path | None = None  # A folder that also gets each rank's output: rank-R.out, rank-R.err.


def launch(options: LaunchOptions) -> int:
    """Run the job to its end and return its exit code: 0; or that of the rank that failed first (128 + N for signal N);
    130, 143, 129 after SIGINT, SIGTERM, SIGHUP to this process; 124 after `timeout`; 127 or 126 if the command cannot
    be found or run; 141 if the reader of the output has gone.

    Each rank leads a process group, and the group ends with the rank: the launcher asks processes that a rank has left
    running to end (SIGTERM), and kills them when the rank's outputs are closed or the grace time is over. Call it from
    the main thread, where Python handles signals. Raises `InvalidArgument` for invalid options before it starts a rank.
    """
    check(options)
    with caught_signals() as wakeup, contextlib.ExitStack() as kept:
        job = Job(wakeup, grace=options.grace, timeout=options.timeout)
        return run_job(job, options, lambda: _start(job, options, kept))


def check(options: LaunchOptions) -> None:
    """Makes the folder for the output. Raises InvalidArgument."""
    if options.size < 1:
        raise InvalidArgument(f"the number of ranks is {options.size}; expected at least 1")
    if not options.command:
        raise InvalidArgument("there is no command to run; expected one after the options")
    for name, seconds in (("timeout", options.timeout), ("grace", options.grace)):
        if seconds is not None and not 0 <= seconds < 1e9:
            raise InvalidArgument(f"{name} is {seconds} seconds; expected 0 or more")
    if options.output_dir is not None:
        try:
            options.output_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(f"the output directory cannot be made: {error}") from error


def run_job(job: Job, options: LaunchOptions, start: Callable[[], None]) -> int:
    """Starts the ranks of a job, and runs it to its end. Returns the exit code of launch()."""
    try:
        try:
            start()
        except OSError as error:
            job.say(_explain(options.command[0], error))
            code = EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_NOT_EXECUTABLE
            job.end(signal.SIGKILL, code)
        return job.run()
    finally:
        job.close()


@contextlib.contextmanager
def caught_signals() -> Iterator[int]:
    """Within this context each signal becomes a byte in the yielded file descriptor, so one wait sees all events."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)

    def note(_signal: int, _frame: FrameType | None) -> None:
        """Does nothing: the interpreter has written the number to the wake-up descriptor."""

    old_fd = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    # An ignored signal stays ignored, because nohup and a shell's background jobs rely on it.
    wanted = [s for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) is not signal.SIG_IGN]
    old = {s: signal.signal(s, note) for s in (*wanted, signal.SIGCHLD)}
    try:
        yield read_end
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(old_fd)
        os.close(read_end)
        os.close(write_end)


def _torch_master(options: LaunchOptions, kept: contextlib.ExitStack) -> dict[str, str]:
    """Where rank 0 will serve torch's store: where the user says, or at a port that is kept free while the job runs."""
    (host, port), (given_host, given_port) = chosen_master(os.environ), chosen_master(options.env)
    host, port = given_host or host or "127.0.0.1", given_port or port
    return master_variables(host, port or kept.enter_context(reserved()).getsockname()[1])


def _start(job: Job, options: LaunchOptions, kept: contextlib.ExitStack) -> None:
    """Start all ranks. Raises OSError if a rank cannot start; the job then has the ranks before it."""
    base = environment_of_ranks(options) | _torch_master(options, kept)
    # The launcher binds the port and rank 0 inherits it, so that no other process can take the port in between.
    with socket.create_server(("127.0.0.1", 0), backlog=max(128, options.size)) as listener:
        base |= {
            "HIPRESS_SIZE": str(options.size),
            "HIPRESS_LOCAL_SIZE": str(options.size),
            "HIPRESS_RENDEZVOUS": f"127.0.0.1:{listener.getsockname()[1]}",
            "HIPRESS_JOB_TOKEN": secrets.token_hex(16),
        }
        own = {"HIPRESS_RENDEZVOUS_FD": str(listener.fileno())}
        start_process(job, options, 0, base | own | _variables_of_rank(options, 0), (listener.fileno(),))
    # The launcher has closed the listener: only rank 0 holds it, so connections to it end with rank 0.
    for index in range(1, options.size):
        start_process(job, options, index, base | _variables_of_rank(options, index))


def environment_of_ranks(options: LaunchOptions) -> dict[str, str]:
    """The variables that all ranks have, but those of their rendezvous. Raises OSError if the command cannot run."""
    base = {**os.environ, **options.env}
    if shutil.which(options.command[0], path=base.get("PATH", os.defpath)) is None:
        # Checked here, too, because a failed exec does not say what a script lacks, see _explain.
        path = Path(options.command[0])
        raise PermissionError(path) if path.exists() else FileNotFoundError(path)
    # If this launcher runs as a rank, these variables are of the outer job.
    for name in ("HIPRESS_RENDEZVOUS_FD", "HIPRESS_ELASTIC", "HIPRESS_ELASTIC_PROCESS"):
        base.pop(name, None)
    # N ranks with one thread per core each would slow each other down.
    base.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // options.size)))
    # Python would write blocks to a pipe: late, out of order, and lost when a rank is killed.
    base.setdefault("PYTHONUNBUFFERED", "1")
    return base


def _variables_of_rank(options: LaunchOptions, index: int) -> dict[str, str]:
    torch = place_variables(Place(index, options.size, index, options.size))
    given = {name: value for name, value in torch.items() if name not in options.env}
    return {"HIPRESS_RANK": str(index), "HIPRESS_LOCAL_RANK": str(index)} | given


def start_process(
    job: Job,
    options: LaunchOptions,
    index: int,
    env: dict[str, str],
    pass_fds: tuple[int, ...] = (),
    name: str = "",
    stdin: bytes | None = None,
) -> Rank:
    """Starts a rank and adds it to the job. Raises OSError.

    `name`: what the launcher calls it. `stdin`: what it reads first from a pipe, which then stays open; None: rank 0
    reads the launcher's stdin.
    """
    # Open the files before the process starts: no step may fail between its start and its registration with the job.
    copies = [_copy(options.output_dir, index, kind) for kind in ("out", "err")]
    process = subprocess.Popen(
        options.command,
        env=env,
        stdin=subprocess.PIPE if stdin is not None else None if index == 0 else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        pass_fds=pass_fds,
        # A new session, not only a new group: rank 0 can read the terminal without being stopped, and Ctrl-C reaches
        # the ranks once, from the launcher, not twice.
        start_new_session=True,
        # It runs in the child before the exec, see orphan_guard. Locks that another thread holds at the fork make such
        # code unsafe; enlist() takes no lock: it calls getpid() and send() once.
        preexec_fn=job.enlist,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    out = RankStream(process.stdout, job.out, index, prefix=options.prefix, copy=copies[0])
    err = RankStream(process.stderr, job.err, index, prefix=options.prefix, copy=copies[1])
    if stdin is not None and process.stdin is not None:
        process.stdin.write(stdin)  # a pipe takes so few bytes at once
    rank = Rank(index, process, (out, err), name)
    job.add(rank)
    return rank


def _copy(directory: Path | None, index: int, kind: str) -> BinaryIO | None:
    if directory is None:
        return None
    try:
        # Unbuffered, so that a user can follow the file while the job runs. The stream closes the file.
        return open(directory / f"rank-{index}.{kind}", "wb", buffering=0)
    except OSError as error:
        raise InvalidArgument(f"the output file cannot be made: {error}") from error


def _explain(command: str, error: OSError) -> str:
    """The reason why the command cannot start, and advice."""
    if isinstance(error, FileNotFoundError):
        return f"command not found: {command}"
    if isinstance(error, PermissionError) or error.errno == 8:  # ENOEXEC
        hint = f"; did you mean: python {command}?" if command.endswith(".py") else ""
        return f"cannot execute {command}: {error.strerror or 'it is not an executable file'}{hint}"
    return f"cannot start {command}: {error}"

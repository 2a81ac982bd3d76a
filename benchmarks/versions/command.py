# SPDX-License-Identifier: Apache-2.0
"""Compares two installed versions of HiPress by the time in which their jobs average tensors.

    python benchmarks/versions.py OLD/.venv NEW/.venv --json FILE
    python benchmarks/versions.py OLD/.venv NEW/.venv --size 800,12K --codec onebit --tensors 161
    python benchmarks/versions.py OLD/.venv NEW/.venv --size 256K --codec int8 --tensors 161 --carrier gloo --ranks 4

Both jobs live at the same time and take turns, so that disturbances of the machine affect both. An environment needs
torch and the version's own `hipress run`. A row for each size has the columns

    size_bytes, tensors, codec, carrier, ranks  the settings of a synchronisation
    old_us, new_us                      median time of one synchronisation, in microseconds
    wall_ratio                          median of the turns' ratios: new divided by old, below 1 if the new is faster
    old_cpu_us, new_cpu_us, cpu_ratio   the same of the processor time of all ranks
    turns, repeats                      turns, and synchronisations in each
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from benchmarks.harness.report import Row, parse_names, parse_size, print_table, write_json

_RANK = Path(__file__).with_name("rank.py")
#: Deadlines of a job's start and of a turn (seconds).
START, TURN = 120.0, 120.0
#: Seconds of wall time and of processor time of one synchronisation.
Times = tuple[float, float]


class VersionFailed(Exception):
    """A job did not start, or ended before its last turn."""


class Job:
    """The job of one version: two ranks that wait for their turn."""

    def __init__(self, environment: Path, peer: TextIO) -> None:
        self._environment = environment
        self._peer = peer

    def turn(self, size: int) -> Times:
        """Runs one turn, which averages tensors of `size` bytes repeatedly. Raises VersionFailed."""
        try:
            self._peer.write(f"{size}\n")
            self._peer.flush()
            line = self._peer.readline()
        except OSError as error:
            raise VersionFailed(f"{self._environment}: no answer within {TURN:.0f} s: {error}") from None
        if not line:
            raise VersionFailed(f"{self._environment}: the job has ended; its output says why")
        wall, processor = json.loads(line)
        return wall, processor


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _accepted(server: socket.socket, process: subprocess.Popen[bytes], environment: Path) -> socket.socket:
    """The connection of rank 0."""
    deadline = time.monotonic() + START
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise VersionFailed(f"{environment}: the job has ended before its first turn; its output says why")
        try:
            return server.accept()[0]
        except TimeoutError:
            continue
    raise VersionFailed(f"{environment}: rank 0 has not connected after {START:.0f} s")


@contextmanager
def started(environment: Path, asked: dict[str, object], ranks: int) -> Iterator[Job]:
    """A job of this environment's version with so many ranks; it ends with the `with` statement.

    Raises VersionFailed.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(1.0)
        here = environment / "bin"
        command = [str(here / "hipress"), "run", "-n", str(ranks), str(here / "python"), str(_RANK)]
        given = json.dumps({**asked, "port": server.getsockname()[1], "group_port": _free_port()})
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        try:
            process = subprocess.Popen([*command, given], env=variables, cwd=environment)
        except OSError as error:
            raise VersionFailed(f"{environment} has no version of HiPress: {error}") from None
        try:
            connection = _accepted(server, process, environment)
            connection.settimeout(TURN)
            with connection, connection.makefile("rw") as peer:
                yield Job(environment, peer)
        finally:
            process.terminate()
            process.wait()


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", type=Path, help="the virtual environment of one version")
    parser.add_argument("new", type=Path, help="the virtual environment of the other version")
    parser.add_argument("--size", type=parse_names, default=["800", "12K", "12M"], help="by commas")
    parser.add_argument("--codec", default="none", help="codec of all tensors (default: none)")
    parser.add_argument("--tensors", type=int, default=1, help="number of tensors averaged at a time (default: 1)")
    parser.add_argument(
        "--carrier",
        choices=("engine", "list", "gloo"),
        default="engine",
        help="engine: collectives; list: as an optimizer does; gloo: a step of DDP with the hook over a process group "
        "(default: engine)",
    )
    parser.add_argument("--ranks", type=int, default=2, help="ranks of each job (default: 2)")
    parser.add_argument("--repeats", type=int, default=200, help="synchronisations in a turn (default: 200)")
    parser.add_argument("--turns", type=int, default=15, help="default: 15")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def row_of(turns: Sequence[tuple[Times, Times]]) -> Row:
    """Medians over the turns of both versions."""
    row: Row = {}
    for at, prefix, ratio in ((0, "", "wall_ratio"), (1, "cpu_", "cpu_ratio")):
        old, new = ([turn[version][at] for turn in turns] for version in (0, 1))
        row |= {f"old_{prefix}us": 1e6 * statistics.median(old), f"new_{prefix}us": 1e6 * statistics.median(new)}
        row[ratio] = statistics.median(after / before for before, after in zip(old, new, strict=True))
    return row


def main() -> int:
    """Runs the measurement of the command line. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if min(given.tensors, given.ranks, given.repeats, given.turns) < 1:
        parser.error("--tensors, --ranks, --repeats and --turns are at least 1")
    try:
        sizes = [parse_size(text) for text in given.size]
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    of = {"tensors": given.tensors, "codec": given.codec, "carrier": given.carrier, "ranks": given.ranks}
    asked = {"sizes": sizes, "repeats": given.repeats, **of}
    turns: dict[int, list[tuple[Times, Times]]] = {size: [] for size in sizes}
    try:
        with ExitStack() as stack:
            jobs = [stack.enter_context(started(each.resolve(), asked, given.ranks)) for each in (given.old, given.new)]
            for number in range(given.turns):
                for size in sizes:
                    first = number % 2
                    times = {at: jobs[at].turn(size) for at in (first, 1 - first)}
                    turns[size].append((times[0], times[1]))
    except VersionFailed as error:
        print(f"versions.py: {error}", file=sys.stderr)
        return 1
    settings = {"turns": given.turns, "repeats": given.repeats}
    rows: list[Row] = [{"size_bytes": size, **of, **row_of(turns[size]), **settings} for size in sizes]
    print_table(rows)
    if given.json:
        write_json(given.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())

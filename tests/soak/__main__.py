# SPDX-License-Identifier: Apache-2.0
"""Random faults, one job after the other, until the time is over or an invariant is broken: `make soak`.

    python -m tests.soak [--seconds 1800] [--seed N] [--round N] [--logs build/soak]

The program prints the seed. A round with the same seed and number repeats the same faults; the machine's timing still
varies. Exit code 1: a job broke an invariant; the files that the ranks of that round wrote are kept.
"""

from __future__ import annotations

import argparse
import faulthandler
import shutil
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.cluster.nodes import cluster, unavailable
from tests.soak.faults import play
from tests.soak.rounds import draw

#: Seconds for one round. After that this process prints its stacks, and ends together with its cluster.
WATCHDOG = 240.0
NODES = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=1800.0, help="start no round after these seconds (default: 1800)"
    )
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000, help="seed (default: from the clock)")
    parser.add_argument("--round", type=int, help="play only the round with this number")
    parser.add_argument("--logs", type=Path, default=Path("build/soak"), help="default: build/soak")
    given = parser.parse_args()
    missing = unavailable()
    print(f"seed {given.seed}" + (f"; on loopback only: {missing}" if missing else ""), flush=True)
    shutil.rmtree(given.logs, ignore_errors=True)
    with ExitStack() as stack:
        network = None if missing else stack.enter_context(cluster.Cluster(nodes=NODES, rate="1gbit"))
        return soak(given.seed, given.seconds, given.round, given.logs, network)


def soak(seed: int, seconds: float, only: int | None, logs: Path, network: object) -> int:
    """Plays rounds and returns the exit code."""
    end = time.monotonic() + seconds
    played: Counter[str] = Counter()
    number = 0 if only is None else only
    while time.monotonic() < end:
        this = draw(seed, number, network is not None)
        folder = logs / f"round{number}"
        folder.mkdir(parents=True)
        print(this.describe(), end=" -> ", flush=True)
        faulthandler.dump_traceback_later(WATCHDOG, exit=True)
        try:
            print(play(this, network, folder), flush=True)
        except Exception as error:
            print(f"VIOLATED\n{type(error).__name__}: {error}\nThe ranks' files are in {folder}", flush=True)
            return 1
        finally:
            faulthandler.cancel_dump_traceback_later()
        shutil.rmtree(folder)
        played[this.fault] += 1
        if only is not None:
            break
        number += 1
    print(f"seed {seed}: nothing violated in {played.total()} rounds; {dict(sorted(played.items()))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""An elastic job on emulated hosts that loses ranks, links and hosts at random: `make soak-elastic`.

    python -m tests.soak.elastic [--diloco] [--seconds 1800] [--seed N] [--hosts 4] [--per-host 2] [--logs FOLDER]

Events: a process is killed or stopped, a host's link goes down for some seconds, a host leaves the job and comes back.
At the end the training must have learnt what an undisturbed one learns, with the same parameters on all ranks, and no
process may be left. The program prints the seed, and how long the ranks took to go on after each loss. Exit code 1: one
of these does not hold.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cluster.network import address, enter, on_network
from tests.cluster.nodes import cluster, unavailable
from tests.launch.conftest import clean_environment

TRAININGS = Path(__file__).parents[1] / "torch"
#: Their programs, and the last arguments. With a higher learning rate onebit is unstable over thousands of steps,
#: without losses, too.
TORCH_STATE = TRAININGS / "elastic" / "training.py", ["10", "0.1"]
DILOCO = TRAININGS / "diloco" / "training.py", ["10", '{"overlap_steps": 2}']
#: Steps that the training takes after the last event. None of its processes may be there already when it hears of them.
_LAST_STEPS = 1000
#: The error of the training at its end. It begins at 10, and nothing but rounding is between the model and the data.
_LEARNT = 0.05
#: Seconds in which ranks must have gone on after a loss.
_LONGEST = 10.0
#: Seconds after the last event in which the job must have ended.
_PATIENCE = 240.0
#: Takes the place of ssh: enters the host with this address.
_SSH = """\
#!{python}
import sys
sys.path.insert(0, {root!r})
import os, subprocess, threading
from benchmarks.cluster.network import address, enter
holders = {holders}
host = [address(node) for node in range(len(holders))].index(sys.argv[3])
command = enter(holders[host], ["sh", "-c", sys.argv[4]])
# As under ssh, the command lives on when this process is killed, and then its standard input ends.
child = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
def copy():
    while data := os.read(0, 65536):
        child.stdin.write(data)
        child.stdin.flush()
    child.stdin.close()
threading.Thread(target=copy, daemon=True).start()
sys.exit(child.wait())
"""


class Soak:
    """The job and its events."""

    def __init__(self, network: Any, logs: Path, given: argparse.Namespace) -> None:
        seed, per_host = given.seed, given.per_host
        self.repeats_steps = not given.diloco
        self.network, self.logs, self.per_host = network, logs, per_host
        self.chance = random.Random(seed)
        self.hosts = list(range(len(network.nodes)))
        self.losses: list[tuple[float, bool]] = []  # when a rank was lost, and whether it surely was
        self.events = 0
        programs = logs / "programs"
        programs.mkdir(parents=True)
        root = str(Path(__file__).parents[2])
        self._program(programs / "ssh", _SSH.format(python=sys.executable, root=root, holders=network.nodes))
        self._program(programs / "hosts", f"#!/bin/sh\ncat {logs}/hosts\n")
        self._write_hosts()
        most = len(self.hosts) * per_host
        options = ["--elastic", "-np", str(most), "--min-np", "2", "--restarts", "1000"]
        options += ["--host-discovery-script", str(programs / "hosts")]
        program, last = DILOCO if given.diloco else TORCH_STATE
        training = [sys.executable, str(program), str(logs), "onebit", "1000000000", *last]
        command = [sys.executable, "-m", "hipress.cli", "run", *options, *training]
        environment = clean_environment() | {"OMP_NUM_THREADS": "1"}
        environment["PATH"] = f"{programs}:{environment['PATH']}"
        self.output = (logs / "output.txt").open("wb")
        self.process = subprocess.Popen(
            on_network(network.nodes[0], command), env=environment, stdout=self.output, stderr=subprocess.STDOUT
        )

    @staticmethod
    def _program(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def _write_hosts(self) -> None:
        lines = [f"{address(host)}:{self.per_host}\n" for host in self.hosts]
        (self.logs / "hosts.new").write_text("".join(lines))
        (self.logs / "hosts.new").rename(self.logs / "hosts")

    def lines(self, kind: str) -> dict[int, list[list[str]]]:
        """The words of the lines of this kind, by process."""
        found: dict[int, list[list[str]]] = {}
        for file in self.logs.glob("[0-9]*.txt"):
            lines = file.read_text().split("\n")[:-1]
            found[int(file.stem)] = [words for words in map(str.split, lines) if words[0] == kind]
        return found

    def ranks(self) -> dict[int, int]:
        """The numbers of the processes in the last world, with their process numbers on their hosts."""
        begins = {number: words[-1] for number, words in self.lines("begins").items() if words}
        last = max((float(words[5]) for words in begins.values()), default=0.0)
        return {number: int(words[4]) for number, words in begins.items() if float(words[5]) > last - 1.0}

    def host_of(self, pid: int, number: int) -> int | None:
        """The host on which the process runs."""
        for host, holder in enumerate(self.network.nodes):
            seen = subprocess.run(
                enter(holder, ["sh", "-c", f"tr '\\0' '\\n' < /proc/{pid}/environ"]), capture_output=True, text=True
            )
            if f"HIPRESS_ELASTIC_PROCESS={number}" in seen.stdout.split("\n"):
                return host
        return None

    def disturb(self) -> None:
        """One event, and the time until the ranks may have come to terms with it."""
        kind = self.chance.choice(["KILL", "KILL", "KILL", "STOP", "link", "host"])
        ranks = self.ranks()
        if len(ranks) < 4:
            return
        self.events += 1
        if kind in ("KILL", "STOP"):
            number = self.chance.choice(sorted(ranks))
            host = self.host_of(ranks[number], number)
            if host is not None:
                self._note(f"SIG{kind} to process {number} on host {host}")
                self.losses.append((time.time(), True))
                self.network.popen(host, ["kill", f"-{kind}", str(ranks[number])]).wait()
        elif kind == "link":
            host = self.chance.randrange(1, len(self.network.nodes))  # the launcher is on host 0
            self._note(f"the link of host {host} is down")
            self.losses.append((time.time(), False))
            self.network.cut(host)
            time.sleep(self.chance.uniform(6.0, 9.0))
            self.network.restore(host)
            self._note(f"the link of host {host} is up")
        else:
            host = self.chance.randrange(1, len(self.network.nodes))
            self._note(f"host {host} leaves")
            self.hosts.remove(host)
            self._write_hosts()
            time.sleep(self.chance.uniform(3.0, 6.0))
            self.hosts.append(host)
            self._write_hosts()
            self._note(f"host {host} comes back")

    def end_training(self) -> None:
        """Tells the training its last step."""
        reached = max(int(words[-1][1]) for words in self.lines("step").values() if words)
        (self.logs / "last.new").write_text(str(reached + _LAST_STEPS))
        (self.logs / "last.new").rename(self.logs / "last")

    def _note(self, text: str) -> None:
        line = f"{time.time():.3f} {text}\n"
        self.output.write(line.encode())
        self.output.flush()

    def reforming(self) -> list[float]:
        """The seconds from each loss until a rank was in a new world; where another rank was lost before that, from the
        last loss, with which forming the world begins anew.

        A job that ends well may end without one. A link that comes back in time may have lost nobody: then the next new
        world comes after another loss.
        """
        times = sorted(float(words[5]) for each in self.lines("begins").values() for words in each)
        found = []
        for number, (lost, is_sure) in enumerate(self.losses):
            begun = next((each for each in times if each > lost), None)
            later = next((each for each, _ in self.losses[number + 1 :]), math.inf)
            if begun is not None and (is_sure or begun < later):
                found.append(begun - max(each for each, _ in self.losses if each < begun))
        return found

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.output.close()


def soak(this: Soak, seconds: float) -> list[str]:
    """Disturbs the job for so long, waits for its end, and returns what does not hold."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and this.process.poll() is None:
        time.sleep(this.chance.uniform(2.0, 12.0))
        this.disturb()
    this.end_training()
    try:
        code: int | str = this.process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        code = f"still runs after {_PATIENCE:g} s"
    ends = {number: words[-1] for number, words in this.lines("ends").items() if words}
    print(f"{this.events} events, {len(ends)} ranks at the end, exit code {code}")
    wrong = [] if code == 0 else [f"exit code {code}"]
    if not ends:
        return [*wrong, "no rank has ended well"]
    if len({words[2] for words in ends.values()}) > 1:
        wrong.append("the ranks have different parameters")
    if (loss := max(float(words[1]) for words in ends.values())) > _LEARNT:
        wrong.append(f"the error at the end is {loss}")
    if not this.repeats_steps:
        steps = {number: [int(words[1]) for words in lines] for number, lines in this.lines("step").items()}
        wrong += [f"process {number} repeats steps" for number, each in steps.items() if each != sorted(set(each))]
    took = this.reforming()
    if took:
        print(f"after {len(took)} losses ranks went on in {median(took):.2f} s (median), {max(took):.2f} s (most)")
        if max(took) > _LONGEST:
            wrong.append(f"ranks went on after {max(took):.1f} s")
    for host, holder in enumerate(this.network.nodes):
        left = subprocess.run(enter(holder, ["ps", "-eo", "args"]), capture_output=True, text=True).stdout
        if str(TRAININGS) in left:
            wrong.append(f"host {host} has processes left:\n{left}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.elastic", description=__doc__)
    parser.add_argument("--diloco", action="store_true", help="a training with DiLoCo (default: with TorchState)")
    parser.add_argument("--seconds", type=float, default=1800.0, help="of events (default: 1800)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000, help="seed (default: from the clock)")
    parser.add_argument("--hosts", type=int, default=4, help="emulated hosts (default: 4)")
    parser.add_argument("--per-host", type=int, default=2, help="processes on each (default: 2)")
    parser.add_argument("--logs", type=Path, default=Path("build/soak-elastic"), help="default: build/soak-elastic")
    given = parser.parse_args()
    if missing := unavailable():
        print(f"this machine cannot emulate hosts: {missing}", file=sys.stderr)
        return 2
    print(f"seed {given.seed}", flush=True)
    shutil.rmtree(given.logs, ignore_errors=True)
    given.logs.mkdir(parents=True)
    with cluster.Cluster(nodes=given.hosts, rate="1gbit") as network:
        this = Soak(network, given.logs.resolve(), given)
        try:
            wrong = soak(this, given.seconds)
        finally:
            this.close()
    for each in wrong:
        print(f"WRONG: {each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

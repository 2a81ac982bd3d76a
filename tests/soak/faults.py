# SPDX-License-Identifier: Apache-2.0
"""Plays a round of the soak test: starts its job, causes its fault, and checks the ranks' reactions."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from tests.cluster.fault_job import Broken, FaultJob, Session
from tests.cluster.invariants import check_all
from tests.cluster.nodes import lossy
from tests.cluster.test_corrupt_payloads import synchronise_corrupted
from tests.soak.rounds import TIMEOUT, Round

#: Seconds that a busy machine may add to a promised time.
SLACK = 10.0
STEPS = 60
#: Seconds of a host's silence after which it is lost: longer than every brief fault, shorter than the deadline of a
#: step.
SILENCE = 2.5

#: By fault: the types of error that ranks may raise after all ranks have made a step, and the seconds until they raise
#: it.
_EXPECTED: dict[str, tuple[set[str], float]] = {
    "kill": ({"PeerLost"}, 0.5),
    "kill two": ({"PeerLost"}, 0.5),
    # The time has three parts: the engine's deadline, its grace for ranks that know the cause, and a step that had just
    # begun.
    "stop": ({"Timeout"}, TIMEOUT + 2.0),
    "leave": ({"PeerLost"}, 2.5),
    "late": ({"Timeout", "PeerLost", "Refused"}, 2 * TIMEOUT + 2.0),
    "cut": ({"PeerLost"}, SILENCE * 1.25 + 0.5),
    "loss of all": ({"PeerLost"}, SILENCE * 1.25 + 0.5),
    "slowness": ({"Timeout"}, TIMEOUT + 2.0),
}


def play(this: Round, network: Any, folder: Path) -> str:
    """Plays the round and returns a short description of its end. Raises Broken."""
    if this.fault == "corrupt":
        topology, codec = this.topology, "onebit" if this.number % 2 else "none"
        synchronise_corrupted(topology, codec)
        return "CorruptPayload"
    with FaultJob(folder, _session(this), network if this.on_nodes else None, this.per_node) as job:
        tolerated = this.fault.startswith("brief") or this.fault == "nothing"
        if this.ready and "late" not in this.fault:
            job.running(steps=0)
        time.sleep(this.moment)
        start = time.monotonic()
        with _disturbance(this, job, network)():
            if tolerated:
                time.sleep(this.length)
            else:
                said = _await_errors(this, job, start)
        if tolerated:
            return _check_unharmed(job)
        check_all(job, _survivors(this), 3 * TIMEOUT + SLACK)
        return said


@contextmanager
def _between(begin: Callable[[], object], end: Callable[[], object] = lambda: None) -> Iterator[None]:
    begin()
    try:
        yield
    finally:
        end()


def _session(this: Round) -> Session:
    tolerated = this.fault.startswith("brief") or this.fault == "nothing"
    slow = this.fault == "slowness"
    return Session(
        range(this.size),
        this.topology,
        "none" if slow else this.codec,
        sizes=(3_000_000,) if slow else this.sizes,
        steps=STEPS if tolerated else 1_000_000,
        own_steps={this.victims[0]: 5 + int(this.moment * 20)} if this.fault == "leave" else {},
        delays={this.victims[0]: {"late": 2.5 * TIMEOUT, "brief late": this.length}.get(this.fault, 0.0)},
        timeout=60.0 if tolerated else TIMEOUT,
        variables={"HIPRESS_HEARTBEAT_LIMIT": str(SILENCE)},
    )


def _survivors(this: Round) -> list[int]:
    dead = this.victims if this.fault in ("kill", "kill two", "stop") else ()
    return [rank for rank in range(this.size) if rank not in dead]


def _disturbance(this: Round, job: FaultJob, network: Any) -> Callable[[], AbstractContextManager[None]]:
    """A function that makes a context: the fault lasts as long as the context."""
    node = this.victims[0] // this.per_node

    def stop_all(number: int) -> Callable[[], object]:
        return lambda: [job.signal(victim, number) for victim in this.victims]

    match this.fault:
        case "kill" | "kill two":
            return lambda: _between(stop_all(signal.SIGKILL))
        case "stop":
            return lambda: _between(stop_all(signal.SIGSTOP))
        case "brief stop":
            return lambda: _between(stop_all(signal.SIGSTOP), stop_all(signal.SIGCONT))
        case "cut" | "brief cut":
            return lambda: _between(lambda: network.cut(node), lambda: network.restore(node))
        case "slowness" | "brief slowness":
            return lambda: _between(lambda: network.set_rate("10mbit", node), lambda: network.set_rate("1gbit", node))
        case "brief loss":
            return lambda: lossy(network, node, 0.1)
        case "loss of all":
            return lambda: lossy(network, node, 1.0)
        case _:
            return nullcontext


def _await_errors(this: Round, job: FaultJob, start: float) -> str:
    kinds, within = _EXPECTED[this.fault]
    ready = this.ready or this.fault == "late"
    said, to_blame = [], _to_blame(this)
    for rank in _survivors(this):
        if this.fault == "leave" and rank == this.victims[0]:
            continue
        error = job.fact(rank, "error", 3 * TIMEOUT + SLACK)
        if error["kind"] not in (kinds if ready else kinds | {"Timeout", "PeerLost", "TransportError"}):
            raise Broken(f"rank {rank} raised {error['kind']}, not {kinds}: {error}")
        named = any(f"rank {other}" in error["message"] for other in to_blame)
        if rank not in to_blame and ready and not named:
            raise Broken(f"rank {rank} names none of {to_blame}: {error}")
        taken = error["time"] - start
        if ready and this.fault != "leave" and taken > within + SLACK:
            raise Broken(f"rank {rank} noticed after {taken:.1f} s, not {within:.1f}: {error}")
        said.append(f"{error['kind']} {taken:.2f} s")
    return ", ".join(said)


def _to_blame(this: Round) -> set[int]:
    """The ranks that an error may name. The ranks of a host share its link, and a slow link has two ends."""
    if this.fault == "slowness":
        return set(range(this.size))
    if this.fault in ("cut", "loss of all"):
        node = this.victims[0] // this.per_node
        return {rank for rank in range(this.size) if rank // this.per_node == node}
    return set(this.victims)


def _check_unharmed(job: FaultJob) -> str:
    check_all(job, range(job.count), 60.0)
    for rank in range(job.count):
        if errors := job.errors(rank):
            raise Broken(f"rank {rank} had an error, although no rank was lost: {errors}")
    return "all steps made"

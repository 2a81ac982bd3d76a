# SPDX-License-Identifier: Apache-2.0
"""The invariants of every job under every fault. Each check raises Broken with the facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from tests.cluster.fault_job import TYPED, Broken, Fact, FaultJob


def check_all(job: FaultJob, survivors: Collection[int], patience: float) -> None:
    """Waits until the survivors end, at most `patience` seconds for each, and checks the facts that they wrote."""
    for index in survivors:
        code = job.wait(index, patience)
        errors = job.errors(index)
        if code != (3 if errors else 0):
            raise Broken(f"process {index} ended with {code}; errors: {errors}\n{job.log(index)}")
        for error in errors:
            check_error(error)
        check_holdings(job, index)
    check_replicas(job)


def check_error(error: Fact) -> None:
    """Checks that an error has a type that callers can tell apart, names a rank, and left the parameters unchanged."""
    if error["kind"] not in TYPED or "rank " not in error["message"]:
        raise Broken(f"an error of unknown type or without a rank: {error}")
    if not error["unchanged"]:
        raise Broken(f"the failed step changed parameters: {error}")


def check_replicas(job: FaultJob) -> None:
    """Checks that all ranks that made a step have the same bytes after it."""
    digests: dict[tuple[int, int], dict[str, int]] = {}
    for index in range(job.count):
        numbers = [number for number, session in enumerate(job.sessions) if takes_part(session.ranks, index)]
        for number, fact in by_session(job.facts(index), numbers):
            if fact["event"] == "step":
                digests.setdefault((number, fact["step"]), {})[fact["digest"]] = index
    for (number, step), different in digests.items():
        if len(different) > 1:
            raise Broken(f"session {number}, step {step}: replicas differ: {different}")


def takes_part(ranks: object, index: int) -> bool:
    """Whether a process has a rank in a session."""
    return isinstance(ranks, list | tuple | range) and index < len(ranks) and ranks[index] is not None


def by_session(facts: list[Fact], numbers: list[int]) -> list[tuple[int, Fact]]:
    """Each fact with the number of its session; one process's sessions follow each other."""
    found, position = [], -1
    for fact in facts:
        position += fact["event"] == "init"
        found.append((numbers[max(position, 0)], fact))
    return found


def check_holdings(job: FaultJob, index: int) -> None:
    """Checks that after each shutdown the process holds the same resources as before its first init()."""
    # On a shared host other processes create and remove shared memory at the same time.
    private = job.network is not None and job.per_node == 1
    for fact in job.facts(index):
        if fact["event"] != "over":
            continue
        for kind, before in fact["before"].items():
            if kind.startswith("shared") and not private:
                continue
            extra = list((Counter(fact["after"][kind]) - Counter(before)).elements())
            if extra:
                raise Broken(f"process {index} keeps {kind} after session {fact['session']}: {extra}")

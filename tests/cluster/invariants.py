# SPDX-License-Identifier: Apache-2.0
"""What holds for every job, whatever happens to it. Each check raises Broken, with the facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from tests.cluster.fault_job import TYPED, Broken, Fact, FaultJob


def check_all(job: FaultJob, survivors: Collection[int], patience: float) -> None:
    """Waits until the survivors end, at most `patience` seconds each, and checks what they wrote."""
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
    """An error is of a type that callers can tell apart, names a rank, and came without a change."""
    if error["kind"] not in TYPED or "rank " not in error["message"]:
        raise Broken(f"an error that says too little: {error}")
    if not error["unchanged"]:
        raise Broken(f"the failed step changed parameters: {error}")


def check_replicas(job: FaultJob) -> None:
    """All that made a step have the same bytes after it."""
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
    """Each fact with the number of its session: those of a process follow each other."""
    found, position = [], -1
    for fact in facts:
        position += fact["event"] == "init"
        found.append((numbers[max(position, 0)], fact))
    return found


def check_holdings(job: FaultJob, index: int) -> None:
    """After each shutdown, whatever went before, the process holds what it held before the first init."""
    # Elsewhere other processes make and remove shared memory meanwhile.
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

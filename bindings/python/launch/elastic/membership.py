# SPDX-License-Identifier: Apache-2.0
"""Which processes of an elastic job are its ranks: decides, without sockets and clocks, when a new world begins.

A *world* is a list of processes with ranks. It ends when one of its processes is lost, or when all of them have heard
that others wait to come in. The next world then begins with all processes that ask for a place: first the processes
that have the state, by commits and old ranks, then new ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hipress.launch.elastic.rounds import Rounds, RoundTerms
from hipress.launch.worlds.messages import Message

#: Seconds between two questions to processes that a new world waits for.
PING_INTERVAL = 0.5
#: Seconds without an answer after which such a process is lost.
LIFE = 4.0


@dataclass(frozen=True)
class ElasticSizes:
    """The numbers of ranks that a job may have, and how long it waits for them, in seconds."""

    least: int
    most: int
    timeout: float = 600.0
    """How long a job waits while it has too few ranks, and for a rank that computes while the others have stopped."""
    first: float = 60.0
    """How long the first world waits for all processes; then for the least number only."""


@dataclass
class Member:
    """A process of the job."""

    number: int
    host: str = ""  # empty: it has not arrived yet
    asks: bool = False
    commits: int = 0
    rank: int | None = None  # in the last world that it was in
    finished: bool = False
    leaves: bool = False  # it is to have no place in the next world
    missed: int | None = None  # exchanges of the others since they left it out, because it was late; None: it is in
    out: bool = False  # it knows that it has no place any more
    heard: float = 0.0  # when it gave the last sign of life, while a world waits for it
    pinged: float = 0.0


class Membership:
    """All processes of a job. Each method is an event, at the time `now` in seconds of any clock that only rises.

    The caller sends the messages in `outbox`, kills the processes in `lost`, asks those in `ended` to end, prints
    `sentences`, and ends the job when there is a `failure`.
    """

    def __init__(self, sizes: ElasticSizes, now: float) -> None:
        self._sizes = sizes
        self._members: dict[int, Member] = {}
        self._world: list[int] = []
        self.worlds = 0
        """The number of the last world."""
        self._is_over = True
        self._leader: Member | None = None  # rank 0 of the world that begins
        self._next: list[Member] = []  # its processes
        self._waits_since = now
        self._asked: set[int] = set()  # the processes that are asked whether they live
        self._said_too_few = False
        self._rounds = Rounds()
        self.is_finishing = False
        """Whether a process has ended its training well: no new ones come in."""
        self.failure = ""
        self.outbox: list[tuple[int, Message]] = []
        self.lost: list[int] = []
        self.ended: list[int] = []
        self.sentences: list[str] = []

    def started(self, number: int) -> None:
        """The launcher has started a process."""
        self._members[number] = Member(number)

    def arrived(self, number: int, host: str, now: float) -> bool:
        """A process has connected from this host. Returns whether the job has such a process, which is not there."""
        member = self._members.get(number)
        if member is None or member.host:
            return False
        member.host, member.heard = host, now
        return True

    def asked(self, number: int, world: int, commits: int, why: str, now: float) -> None:
        """A process wants a place in a world after `world`."""
        member = self._members.get(number)
        if member is None or member.asks:
            return
        self._start_waiting(now)
        member.asks, member.commits = True, commits
        if member.leaves or (self.is_finishing and member.rank is None):
            self._end(member)
        if number in self._world and world == self.worlds and not self._is_over:
            self._end_world(why or "its ranks have made room for others", now)
        self._end_round(now)  # it may have waited for this process
        self._go_on(now)
        self._tell_news()

    @property
    def next_numbers(self) -> set[int]:
        """The processes of the world that begins."""
        return {member.number for member in self._next}

    def serves(self, number: int, world: int, host: str, port: int, now: float) -> None:
        """The process that is to be rank 0 listens. Now the world begins."""
        leader = self._leader
        if leader is None or leader.number != number or world != self.worlds + 1:
            return
        self.worlds, self._is_over, self._leader = world, False, None
        self._world = [member.number for member in self._next]
        local: Counter[str] = Counter()
        sizes = Counter(member.host for member in self._next)
        for rank, member in enumerate(self._next):
            member.asks, member.rank, member.missed = False, rank, None
            place: Message = {"rank": rank, "size": len(self._next), "local_rank": local[member.host]}
            place |= {"local_size": sizes[member.host], "host": host, "port": port}
            self.outbox.append((member.number, {"kind": "place", "world": world, **place}))
            local[member.host] += 1
        self._said_too_few = False
        self._rounds.begin_world(now)
        self._tell_news()

    def here(self, number: int, world: int, terms: RoundTerms | None, now: float) -> None:
        """A process has come to an exchange of its world. `terms`: None: its own training has ended."""
        if world != self.worlds or self._is_over or number not in self._world:
            self.outbox.append((number, {"kind": "go", "world": world, "room": True, "late": []}))
            return
        self._start_waiting(now)
        self._rounds.come(number, terms, now)
        self._end_round(now)

    def alive(self, number: int, now: float) -> None:
        """A process has answered."""
        if number in self._members:
            self._members[number].heard = now

    def finished(self, number: int, now: float) -> None:
        """A process has ended its training well."""
        member = self._members.get(number)
        if member is None:
            return
        member.finished, self.is_finishing = True, True
        for other in self._members.values():
            if other.rank is None and other.asks:
                self._end(other)
        self._go_on(now)

    def retire(self, number: int) -> None:
        """The process is to leave after the next commit."""
        member = self._members.get(number)
        if member is None or member.leaves:
            return
        member.leaves = True
        if member.rank is None and member.asks:
            self._end(member)
        self._tell_news(member)

    def gone(self, number: int, why: str, now: float) -> None:
        """A process has ended, or its connection has."""
        member = self._members.pop(number, None)
        if member is None:
            return
        if number in self._world and not member.finished:
            self._end_world(f"process {number} (rank {member.rank}) {why}", now)
        if self._leader is not None and member in self._next:
            self._leader = None  # the others still ask
        has_state = any(other.rank is not None for other in self._members.values())
        if self.worlds and not has_state and not member.finished and not self.is_finishing:
            self.failure = "all ranks are lost, and with them the state of the training: start again from a checkpoint"
        self._go_on(now)

    def unreachable(self, number: int, now: float) -> None:
        """The host of a process does not answer. It is lost if others wait for it."""
        if self._is_waiting() and any(member.number == number for member in self._awaited(now)):
            self.lost.append(number)
            self.gone(number, "cannot be reached", now)

    def tick(self, now: float) -> None:
        """Asks processes whether they live, and looks at the deadlines."""
        if not self._is_waiting():
            return
        awaited = self._awaited(now)
        self._end_round(now)
        for member in awaited:
            if not member.host:
                continue
            if member.number not in self._asked:
                member.heard = now
            if now - member.heard > LIFE or (self.worlds and now - self._waits_since > self._sizes.timeout):
                self.lost.append(member.number)
                self.gone(member.number, f"has not answered for {LIFE:g} s", now)
            elif now - member.pinged >= PING_INTERVAL:
                member.pinged = now
                self.outbox.append((member.number, {"kind": "ping"}))
        self._asked = {member.number for member in awaited}
        if not awaited and self._leader is None and now - self._waits_since > self._sizes.timeout:
            self.failure = (
                f"{self._here()} for {self._sizes.timeout:g} s, and the job needs {self._sizes.least} (--min-np)"
            )
        self._go_on(now)

    def next_time(self, now: float) -> float | None:
        """When to call tick(); None: after the next event."""
        if not self._is_waiting() or self.failure:
            return None
        return min(now + PING_INTERVAL, self._rounds.end)

    def _is_waiting(self) -> bool:
        return self._leader is not None or bool(self._rounds.here) or (self._is_over and any(self._asking()))

    def _start_waiting(self, now: float) -> None:
        """A process waits from now on. Until then nobody asked whether the others live."""
        if self.worlds and not self._is_waiting():
            self._waits_since, self._asked = now, set()

    def _asking(self) -> list[Member]:
        return [member for member in self._members.values() if member.asks]

    def _awaited(self, now: float) -> list[Member]:
        """The processes for which the next world waits."""
        if self._leader is not None:
            return [self._leader]
        if self._rounds.here:
            return self._missing()
        if self.worlds:
            of_world = (self._members.get(number) for number in self._world)
            return [member for member in of_world if member and not (member.asks or _is_free(member))]
        enough = now - self._waits_since > self._sizes.first and len(self._asking()) >= self._sizes.least
        return [] if enough else [member for member in self._members.values() if not member.asks]

    def _end_world(self, why: str, now: float) -> None:
        if self._is_over:
            return
        self._is_over, self._waits_since = True, now
        self._release(room=True)
        for number in self._world:
            if number in self._members:
                self.outbox.append((number, {"kind": "over", "world": self.worlds, "why": why}))

    def _missing(self) -> list[Member]:
        """The processes for which the round waits: others of the world, or processes that have been late too often."""
        of_world = (self._members.get(number) for number in self._world if number not in self._rounds.here)
        missing = [member for member in of_world if member and not _is_free(member)]
        return missing or [member for member in self._members.values() if self._is_overdue(member)]

    def _is_overdue(self, member: Member) -> bool:
        """Whether the others may not go on without this late process any longer."""
        missed = -1 if member.missed is None else member.missed
        return missed >= self._rounds.most_late and not (member.asks or member.finished)

    def _end_round(self, now: float) -> None:
        """Answers the processes that are at an exchange, if all are there, or if the others have had their time."""
        if not self._rounds.here:
            return
        missing = self._missing()
        if missing and (now < self._rounds.end or any(member.missed is not None for member in missing)):
            return
        if missing:
            for member in missing:
                member.missed = 0
            ranks = ", ".join(str(member.rank) for member in missing)
            self.sentences.append(f"rank {ranks} of world {self.worlds} is late: the others go on without it")
            self._release(room=True, late=[member.rank for member in missing])
            self._end_world(f"rank {ranks} is late", now)
            return
        room = self._others_wait() or any(self._members[each].leaves for each in self._world if each in self._members)
        self._release(room=room)
        self._rounds.ended(now)
        if not room:
            for member in self._members.values():
                member.missed = None if member.missed is None else member.missed + 1

    def _release(self, *, room: bool, late: Iterable[int | None] = ()) -> None:
        for number in self._rounds.here:
            self.outbox.append((number, {"kind": "go", "world": self.worlds, "room": room, "late": list(late)}))
        self._rounds.clear()

    def _go_on(self, now: float) -> None:
        """Begins the next world if all that it needs is there."""
        asking = self._asking()
        if self.failure or self._leader is not None or not self._is_over or not asking or self._awaited(now):
            return
        if len(asking) < self._sizes.least:
            return self._has_too_few()
        asking.sort(key=_place_in_line)
        self._next = asking[: self._sizes.most]
        self._leader = self._next[0]
        self._leader.heard, self._waits_since = now, now
        several = len({member.host for member in self._next}) > 1
        self.outbox.append((self._leader.number, {"kind": "lead", "world": self.worlds + 1, "everywhere": several}))

    def _has_too_few(self) -> None:
        if self.is_finishing:
            self.failure = (
                f"{self._here()}, the job needs {self._sizes.least} (--min-np), and no process comes any more, because "
                "others have finished"
            )
        elif not self._said_too_few:
            self._said_too_few = True
            self.sentences.append(
                f"{self._here()}, and the job needs {self._sizes.least} (--min-np): it waits for others, at most "
                f"{self._sizes.timeout:g} s"
            )

    def _here(self) -> str:
        here = len(self._asking())
        return f"{here} {'rank is' if here == 1 else 'ranks are'} here"

    def _tell_news(self, leaving: Member | None = None) -> None:
        """Tells the ranks that others wait, or that one of them is to leave."""
        if self._is_over or not (self._others_wait() or leaving is not None):
            return
        for number in self._world:
            if number in self._members:
                self.outbox.append((number, {"kind": "news", "world": self.worlds}))

    def _others_wait(self) -> bool:
        late = any(member.missed is not None for member in self._asking())
        new = any(member.rank is None for member in self._asking()) and len(self._world) < self._sizes.most
        return late or (new and not self.is_finishing)

    def _end(self, member: Member) -> None:
        why = "it is to leave" if member.leaves else "the training has finished"
        member.asks, member.out = False, True
        self.outbox.append((member.number, {"kind": "end", "why": why}))
        self.ended.append(member.number)


def _is_free(member: Member) -> bool:
    """Whether no other process waits for it."""
    return member.finished or member.out or member.missed is not None


def _place_in_line(member: Member) -> tuple[int, float, int]:
    return -member.commits, float("inf") if member.rank is None else member.rank, member.number

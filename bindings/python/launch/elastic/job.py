# SPDX-License-Identifier: Apache-2.0
"""Watches the processes of an elastic job: a process that ends is replaced, and the job goes on."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hipress.launch.elastic.discovery import Discovery
from hipress.launch.elastic.hosts import STILL
from hipress.launch.elastic.membership import Membership
from hipress.launch.elastic.server import MembershipServer
from hipress.launch.job import Job
from hipress.launch.rank import Rank

#: Seconds until the first restart of a process; each later one takes twice as long, up to the longest.
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 30.0
#: Seconds between two looks at the processes.
_LOOK_INTERVAL = 1.0
#: A process that has run for so many seconds has not failed at its start.
_STABLE = 60.0


@dataclass
class Slot:
    """A place for a process on a host."""

    host: str
    restarts_left: int
    delay: float = _FIRST_DELAY
    number: int = -1  # of its process
    started: float = 0.0
    restart_at: float | None = None


class ElasticJob(Job):
    """All processes of an elastic job. `start(number, host)` starts a process and returns it."""

    def __init__(
        self, wakeup: int, membership: Membership, server: MembershipServer, *, grace: float, timeout: float | None
    ) -> None:
        super().__init__(wakeup, grace=grace, timeout=timeout)
        self._membership = membership
        self._server = server
        self._slots: list[Slot] = []
        self._discovery: Discovery | None = None
        self._most, self._restarts = 0, 0
        self._processes = 0  # how many have been started
        self._to_end: set[int] = set()  # the launcher has asked these processes to end
        self._look_at = 0.0
        self._still_since: dict[int, float] = {}
        self._late_code = 0  # of a process that failed when others had finished
        self.start: Callable[[int, str], Rank]

    def follow(self, discovery: Discovery | None, most: int, restarts: int) -> None:
        """From now on the hosts are those of `discovery`, with at most `most` processes."""
        self._discovery, self._most, self._restarts = discovery, most, restarts

    def use_hosts(self, hosts: Mapping[str, int], most: int) -> None:
        """Starts processes where hosts have room, and lets the others leave after the next commit. Raises OSError."""
        wanted = dict(hosts)
        for slot in list(self._slots):
            if wanted.get(slot.host, 0) > 0:
                wanted[slot.host] -= 1
            else:
                self._slots.remove(slot)
                self._membership.retire(slot.number)
        for host, free in wanted.items():
            for _ in range(min(free, most - len(self._slots))):
                slot = Slot(host, self._restarts)
                self._slots.append(slot)
                self._start(slot)

    def run(self) -> int:
        """See Job. A job whose training has ended well has exit code 0, whatever has happened to single processes."""
        return super().run() or self._late_code

    def _start(self, slot: Slot) -> None:
        slot.number, slot.started, slot.restart_at = self._processes, time.monotonic(), None
        self._processes += 1
        self._membership.started(slot.number)
        self.start(slot.number, slot.host)

    def _expects_ranks(self) -> bool:
        return not self.is_ending and any(slot.restart_at is not None for slot in self._slots)

    def _others(self) -> Mapping[int, Callable[[float], None]]:
        found = {} if self._discovery is None else self._discovery.ready()
        return {**self._server.ready(), **found}

    def _next_time(self) -> float | None:
        if self.is_ending:
            return None
        restarts = [slot.restart_at for slot in self._slots if slot.restart_at is not None]
        others = [self._membership.next_time(time.monotonic())]
        others += [] if self._discovery is None else [self._discovery.next_time()]
        return min((self._look_at, *restarts, *(when for when in others if when is not None)))

    def _hear_ended(self, ended: list[Rank]) -> None:
        for rank in ended:
            self._server.drop(rank.index)
            self._membership.gone(rank.index, rank.describe_end(), time.monotonic())
            if self.is_ending or rank.index in self._to_end:
                continue
            if self._membership.worlds == 0:
                super()._hear_ended([rank])  # the job has not begun
            elif rank.status:
                self._take_loss(rank)

    def _take_loss(self, rank: Rank) -> None:
        others = any(each.status is None for each in self._ranks)
        if self._membership.is_finishing:
            self.say(f"{rank.name} {rank.describe_end()}, when others had finished")
            self._late_code = self._late_code or rank.exit_code
            return
        if not others:
            self.say(f"{rank.name} {rank.describe_end()}")
            if self._membership.failure:
                self.say(self._membership.failure)
            return self.fail(rank.exit_code)
        slot = next((each for each in self._slots if each.number == rank.index), None)
        restarts = slot is not None and slot.restarts_left > 0
        self.say(f"{rank.name} {rank.describe_end()}; the others go on" + ("" if restarts else " without it"))
        if slot is not None and restarts:
            if time.monotonic() - slot.started > _STABLE:
                slot.delay = _FIRST_DELAY
            slot.restarts_left -= 1
            slot.restart_at = time.monotonic() + slot.delay
            slot.delay = min(2 * slot.delay, _LONGEST_DELAY)

    def _follow_hosts(self, discovery: Discovery, now: float) -> None:
        discovery.tick(now)
        for sentence in discovery.sentences:
            self.say(sentence)
        discovery.sentences.clear()
        if not self._membership.is_finishing:
            try:
                self.use_hosts(discovery.hosts, self._most)
            except OSError as error:
                self.say(f"a process cannot start: {error}")

    def _find_still(self, now: float) -> None:
        for rank in self._running():
            if rank.status is not None or not rank.stands_still():
                self._still_since.pop(rank.index, None)
            elif now - self._still_since.setdefault(rank.index, now) > STILL:
                self.say(f"{rank.name} stands still for {STILL:g} s: killing it")
                self._kill(rank, now)

    def _kill(self, rank: Rank, now: float) -> None:
        rank.signal(signal.SIGKILL)
        rank.deadline = now + self._grace  # other processes may hold its outputs

    def _take_deadlines(self, now: float) -> None:
        super()._take_deadlines(now)
        if self.is_ending:
            return
        if now >= self._look_at:
            self._look_at = now + _LOOK_INTERVAL
            self._find_still(now)
        if self._discovery is not None:
            self._follow_hosts(self._discovery, now)
        membership = self._membership
        for number in self._server.unreachable(now):
            membership.unreachable(number, now)
        membership.tick(now)
        self._server.send(now)
        for slot in self._slots:
            if slot.restart_at is not None and now >= slot.restart_at:
                if membership.is_finishing:
                    slot.restart_at = None
                else:
                    self._start(slot)
        by_number = {rank.index: rank for rank in self._ranks if not rank.over}
        for number in membership.lost:
            if number in by_number:
                self.say(f"{by_number[number].name} has not answered: killing it")
                self._kill(by_number[number], now)
        for number in membership.ended:
            if number in by_number:
                self._to_end.add(number)
                by_number[number].signal(signal.SIGTERM)
                by_number[number].deadline = now + self._grace
        for sentence in membership.sentences:
            self.say(sentence)
        membership.lost.clear()
        membership.ended.clear()
        membership.sentences.clear()
        if membership.failure:
            self.say(membership.failure)
            self.fail(1)

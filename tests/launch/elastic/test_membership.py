# SPDX-License-Identifier: Apache-2.0
"""Which processes become ranks, and when: the decisions of an elastic job, without processes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hipress.launch.elastic.membership import LIFE, PING_INTERVAL, ElasticSizes, Membership


class Job:
    """A membership whose processes answer at once, but those in `deaf`, which answer when they hear again."""

    def __init__(self, processes: int, least: int = 1, most: int | None = None, **times: float) -> None:
        self.now = 100.0
        self.membership = Membership(ElasticSizes(least, most or processes, **times), self.now)
        self.places: dict[int, dict[str, Any]] = {}
        self.told: dict[int, list[str]] = {}
        self.messages: dict[int, list[dict[str, Any]]] = {}
        self.deaf: set[int] = set()
        self.unheard: list[tuple[int, dict[str, Any]]] = []
        self.lost: list[int] = []
        self.processes = 0
        for _ in range(processes):
            self.start()

    def start(self) -> int:
        self.membership.started(self.processes)
        self.processes += 1
        return self.processes - 1

    def arrive(self, *numbers: int, host: str = "a") -> None:
        for number in numbers:
            assert self.membership.arrived(number, host, self.now)
            self.ask(number)

    def ask(self, *numbers: int, commits: int = 0, why: str = "") -> None:
        for number in numbers:
            world = self.places.get(number, {}).get("world", 0)
            self.membership.asked(number, world, commits, why, self.now)
            self.deliver()

    def lose(self, *numbers: int) -> None:
        for number in numbers:
            self.membership.gone(number, "was killed", self.now)
            self.deliver()

    def finish(self, *numbers: int) -> None:
        for number in numbers:
            self.membership.finished(number, self.now)
            self.deliver()

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += PING_INTERVAL
            self.membership.tick(self.now)
            self.deliver()

    def deliver(self) -> None:
        outbox = self.membership.outbox
        while outbox:
            number, message = outbox.pop(0)
            self.told.setdefault(number, []).append(message["kind"])
            self.messages.setdefault(number, []).append(message)
            if message["kind"] == "place":
                self.places[number] = message
            if number in self.deaf:
                self.unheard.append((number, message))
            elif message["kind"] == "ping":
                self.membership.alive(number, self.now)
            elif message["kind"] == "lead":
                self.membership.serves(number, message["world"], "10.0.0.1", 5000 + number, self.now)
        self.lost += self.membership.lost
        self.membership.lost.clear()

    def hear(self) -> None:
        self.deaf.clear()
        self.membership.outbox[:0] = self.unheard
        self.unheard.clear()
        self.deliver()

    @property
    def ranks(self) -> list[int]:
        """The processes of the last world, by rank."""
        of_world = [(each["rank"], number) for number, each in self.places.items() if each["world"] == self.world]
        assert [rank for rank, _ in sorted(of_world)] == list(range(len(of_world)))
        return [number for _, number in sorted(of_world)]

    @property
    def world(self) -> int:
        return self.membership.worlds


def begun(processes: int, least: int = 1, most: int | None = None, **times: float) -> Job:
    job = Job(processes, least, most, **times)
    job.arrive(*range(processes))
    assert job.ranks == list(range(processes))
    return job


def test_the_first_world_waits_for_all_processes() -> None:
    job = Job(3)
    job.arrive(2, 0)
    assert job.world == 0
    job.arrive(1)
    assert job.ranks == [0, 1, 2]
    assert [(job.places[each]["host"], job.places[each]["port"]) for each in range(3)] == [("10.0.0.1", 5000)] * 3


def test_after_some_time_the_first_world_begins_with_enough_processes() -> None:
    job = Job(3, least=2, first=10.0)
    job.arrive(0, 2)
    job.wait(9.0)
    assert job.world == 0
    job.wait(2.0)
    assert job.ranks == [0, 2]
    job.arrive(1)
    assert job.told[0][-1] == job.told[2][-1] == "news"


def test_local_ranks_count_within_hosts() -> None:
    job = Job(4)
    for number, host in enumerate("abab"):
        job.arrive(number, host=host)
    assert [(job.places[each]["local_rank"], job.places[each]["local_size"]) for each in range(4)] == [
        (0, 2),
        (0, 2),
        (1, 2),
        (1, 2),
    ]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_the_others_go_on_when_all_of_them_have_heard(lost: int) -> None:
    job = begun(3)
    left = [each for each in range(3) if each != lost]
    job.lose(lost)
    assert job.told[left[0]][-1] == "over"
    job.ask(left[1])
    assert job.world == 1
    job.ask(left[0])
    assert job.ranks == left


def test_rank_0_of_the_next_world_has_the_most_commits() -> None:
    job = begun(3)
    job.ask(0, commits=6)
    job.ask(1, commits=7)
    job.ask(2, commits=7)
    assert job.ranks == [1, 2, 0]


def test_a_rank_that_computes_for_long_is_awaited_and_a_silent_one_is_lost() -> None:
    job = begun(4)
    job.lose(3)
    job.ask(0)
    job.deaf.add(2)
    job.wait(LIFE - 1)
    assert job.lost == []
    job.wait(2)
    assert job.lost == [2]
    job.wait(60)
    assert job.world == 1  # process 1 still computes
    job.ask(1)
    assert job.ranks == [0, 1]


def test_a_rank_on_a_host_that_cannot_be_reached_is_lost_when_others_wait_for_it() -> None:
    job = begun(3)
    job.membership.unreachable(1, job.now)
    assert job.lost == []  # all compute
    job.lose(2)
    job.ask(0)
    job.membership.unreachable(0, job.now)  # nobody waits for it
    job.deliver()
    assert job.world == 1
    job.membership.unreachable(1, job.now)
    job.deliver()
    assert job.lost == [1]
    assert job.ranks == [0]


def test_ranks_that_compute_are_not_lost_when_the_first_one_asks_late() -> None:
    job = begun(4, timeout=50.0)
    job.lose(3)
    job.wait(60)  # all compute, and nobody asks whether they live
    job.ask(0)
    job.wait(LIFE + 1)
    assert job.lost == []
    job.ask(1, 2)
    assert job.ranks == [0, 1, 2]


def test_answers_ask_no_new_questions() -> None:
    job = begun(3)
    job.lose(2)
    job.ask(0)
    for _ in range(100):
        job.membership.tick(job.now)
        job.deliver()
    assert job.told[1].count("ping") <= 1


def test_a_rank_that_never_comes_is_lost_after_the_deadline() -> None:
    job = begun(3, timeout=50.0)
    job.lose(2)
    job.ask(0)
    job.wait(49)
    assert job.lost == []
    job.wait(3)
    assert job.lost == [1]
    assert job.ranks == [0]


def test_new_processes_come_in_when_all_ranks_have_made_room() -> None:
    job = begun(2, most=3)
    new = job.start()
    job.arrive(new)
    assert job.told[0][-1] == job.told[1][-1] == "news"
    assert job.ranks == [0, 1]
    job.ask(1, 0, commits=4)
    assert job.ranks == [0, 1, new]


def test_more_processes_than_places_wait_until_one_is_free() -> None:
    job = begun(2, most=2)
    spare = job.start()
    job.arrive(spare)
    assert "news" not in job.told[0]
    job.lose(1)
    job.ask(0)
    assert job.ranks == [0, spare]


def test_too_few_ranks_wait_for_others() -> None:
    job = begun(3, least=2, timeout=100.0)
    job.lose(1, 2)
    job.ask(0)
    assert job.world == 1
    assert job.membership.sentences == [
        "1 rank is here, and the job needs 2 (--min-np): it waits for others, at most 100 s"
    ]
    new = job.start()
    job.wait(50)
    job.arrive(new)
    assert job.ranks == [0, new]


def test_too_few_ranks_end_the_job_after_the_deadline() -> None:
    job = begun(2, least=2, timeout=30.0)
    job.lose(1)
    job.ask(0)
    job.wait(31)
    assert job.membership.failure == "1 rank is here for 30 s, and the job needs 2 (--min-np)"


def test_survivors_below_the_least_number_do_not_wait_when_others_have_finished() -> None:
    job = begun(2, least=2)
    job.finish(0)
    job.lose(0)
    job.ask(1)
    assert "no process comes any more, because others have finished" in job.membership.failure


def test_a_rank_that_has_finished_is_not_awaited() -> None:
    job = begun(3)
    job.finish(0)
    job.lose(2)
    job.ask(1)
    assert job.ranks == [1]


def test_new_processes_end_when_the_training_has_finished() -> None:
    job = begun(2, most=3)
    waiting, late = job.start(), job.start()
    job.arrive(waiting)
    job.finish(0)
    assert job.told[waiting][-1] == "end"
    job.arrive(late)
    assert job.told[late][-1] == "end"
    assert job.membership.ended == [waiting, late]


def test_a_second_loss_while_a_world_begins() -> None:
    job = begun(4)
    job.deaf.add(0)  # it is to be rank 0 again, and dies before it listens
    job.lose(3)
    job.ask(0, 1, 2)
    assert job.world == 1
    job.lose(0)
    assert job.ranks == [1, 2]


def test_a_rank_0_that_stops_while_a_world_begins_is_lost() -> None:
    job = begun(3)
    job.deaf.add(0)
    job.lose(2)
    job.ask(0, 1)
    job.wait(LIFE + 1)
    assert job.lost == [0]
    assert job.ranks == [1]


def test_a_loss_in_init_ends_the_world_that_has_just_begun() -> None:
    job = begun(3)
    job.lose(1)
    assert job.told[0][-1] == "over"
    job.ask(0, 2)
    assert job.ranks == [0, 2]


def test_without_a_rank_the_state_is_lost() -> None:
    job = begun(2, most=3)
    job.arrive(job.start())
    job.lose(0, 1)
    assert "all ranks are lost" in job.membership.failure


def test_a_process_that_is_to_leave_does_so_after_the_next_commit() -> None:
    job = begun(3)
    job.membership.retire(1)
    job.deliver()
    assert job.told[0][-1] == "news"
    job.ask(0, 1, 2)
    assert job.told[1][-1] == "end"
    assert job.ranks == [0, 2]


def test_strangers_and_second_arrivals_are_refused() -> None:
    job = begun(2)
    assert not job.membership.arrived(7, "a", job.now)
    assert not job.membership.arrived(1, "a", job.now)


@pytest.mark.parametrize("seed", range(200))
def test_random_events_always_end_in_a_world_of_all_that_live(seed: int) -> None:
    """Losses, questions, new processes and silence in any order: when all have answered, all that live are ranks."""
    chance = random.Random(seed)
    job = begun(chance.randint(1, 6), most=8)
    living = set(job.ranks)
    for _ in range(30):
        kind = chance.choice(["lose", "ask", "new", "deaf", "wait"])
        asking = chance.sample(sorted(living), chance.randint(0, len(living)))
        if kind == "lose" and len(living & set(job.ranks)) > 1:
            number = chance.choice(sorted(living))
            living.discard(number)
            job.lose(number)
        elif kind == "ask":
            job.ask(*asking, commits=chance.randint(0, 3))
        elif kind == "new" and len(living) < 8:
            living.add(job.start())
            job.arrive(max(living))
        elif kind == "deaf" and len(living & set(job.ranks) - job.deaf) > 1:
            job.deaf.add(chance.choice(sorted(living)))
        else:
            job.wait(chance.uniform(0, 6))
        living -= set(job.lost)
        if job.membership.failure:
            assert "all ranks are lost" in job.membership.failure
            return
    job.hear()
    for _ in range(5):
        job.ask(*sorted(living))
        job.wait(LIFE + 1)
        living -= set(job.lost)
    if not job.membership.failure:
        assert sorted(job.ranks) == sorted(living)

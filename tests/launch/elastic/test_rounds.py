# SPDX-License-Identifier: Apache-2.0
"""Who takes part in an exchange of an elastic job: the launcher's decisions, without processes."""

from __future__ import annotations

import random

import pytest

from hipress.launch.elastic.membership import LIFE
from hipress.launch.elastic.rounds import LEAST_GRACE, RoundTerms
from tests.launch.elastic.test_membership import Job, begun

#: Two ranks are a quorum; they wait a tenth of the time since the last exchange, and miss a rank once at most.
TERMS = RoundTerms(2, 0.1, 1)


def come(job: Job, *numbers: int, terms: RoundTerms | None = TERMS) -> None:
    for number in numbers:
        job.membership.here(number, job.places[number]["world"], terms, job.now)
        job.deliver()


def answers(job: Job, number: int) -> list[bool]:
    """Whether the process was told to come into another world, at each exchange."""
    return [message["room"] for message in job.messages.get(number, ()) if message["kind"] == "go"]


def exchange(job: Job, seconds: float, *numbers: int) -> None:
    """The processes compute for so long, and then exchange."""
    before = {number: len(answers(job, number)) for number in numbers}
    job.wait(seconds)
    come(job, *numbers)
    for number in numbers:
        assert answers(job, number)[before[number] :] == [False]


def test_an_exchange_begins_when_all_are_there() -> None:
    job = begun(3)
    come(job, 2, 0)
    assert answers(job, 0) == []
    come(job, 1)
    assert [answers(job, number) for number in range(3)] == [[False]] * 3
    exchange(job, 5, 0, 1, 2)


def test_without_a_quorum_all_are_awaited() -> None:
    job = begun(3)
    come(job, 0, 1, terms=RoundTerms(0, 0, 0))
    job.wait(500)
    assert answers(job, 0) == []
    come(job, 2, terms=RoundTerms(0, 0, 0))
    assert answers(job, 0) == [False]


def test_a_late_rank_is_left_out_after_a_share_of_the_time_that_the_others_have_computed() -> None:
    job = begun(3)
    exchange(job, 100, 0, 1, 2)
    job.wait(100)
    come(job, 0, 1)
    job.wait(9)
    assert answers(job, 0) == [False]
    job.wait(2)
    assert answers(job, 0) == answers(job, 1) == [False, True]
    assert answers(job, 2) == [False]
    assert job.membership.sentences == ["rank 2 of world 1 is late: the others go on without it"]
    job.ask(0, 1)
    assert job.ranks == [0, 1]
    assert job.lost == []


def test_the_window_has_a_least_length() -> None:
    job = begun(3)
    come(job, 0, 1)
    job.wait(LEAST_GRACE - 0.5)
    assert answers(job, 0) == []
    job.wait(1)
    assert answers(job, 0) == [True]


def test_the_window_begins_with_the_quorum() -> None:
    job = begun(3)
    come(job, 0)
    job.wait(50)
    come(job, 1)
    job.wait(4)
    assert answers(job, 0) == []
    job.wait(2)
    assert answers(job, 0) == [True]


def left_out(most_late: int = 1) -> Job:
    """Process 2 was late, and the others are in a world without it."""
    job = begun(3)
    come(job, 0, 1, terms=RoundTerms(2, 0.1, most_late))
    job.wait(2)
    job.ask(0, 1)
    assert job.ranks == [0, 1]
    return job


def test_a_late_rank_comes_back_at_the_next_exchange() -> None:
    job = left_out()
    come(job, 2)
    assert answers(job, 2) == [True]  # its world is over
    job.ask(2, commits=3)
    assert job.told[0][-1] == "news"
    job.wait(10)
    come(job, 0, 1)
    assert answers(job, 0)[-1] is True
    job.ask(0, 1, commits=4)
    assert job.ranks == [0, 1, 2]
    exchange(job, 10, 0, 1, 2)


@pytest.mark.parametrize("most_late", [1, 3])
def test_a_rank_that_has_missed_enough_exchanges_is_awaited(most_late: int) -> None:
    job = left_out(most_late)
    for _ in range(most_late):
        job.wait(10)
        come(job, 0, 1, terms=RoundTerms(2, 0.1, most_late))
        assert answers(job, 0)[-1] is False
    told = len(answers(job, 0))
    job.wait(10)
    come(job, 0, 1, terms=RoundTerms(2, 0.1, most_late))
    job.wait(60)
    assert len(answers(job, 0)) == told
    job.ask(2)
    assert answers(job, 0)[told:] == [True]
    job.ask(0, 1)
    assert job.ranks == [0, 1, 2]


def test_a_late_rank_that_dies_is_awaited_no_longer() -> None:
    job = left_out()
    exchange(job, 10, 0, 1)
    come(job, 0, 1)
    told = len(answers(job, 0))
    job.lose(2)
    job.wait(1)
    assert answers(job, 0)[told:] == [False]


def test_a_late_rank_that_stands_still_is_lost_when_it_is_awaited() -> None:
    job = left_out()
    exchange(job, 10, 0, 1)
    job.deaf.add(2)
    come(job, 0, 1)
    job.wait(LIFE + 2)
    assert job.lost == [2]
    assert answers(job, 0)[-1] is False


def test_a_stopped_rank_is_lost_while_the_others_are_at_an_exchange() -> None:
    job = begun(3)
    job.deaf.add(1)
    come(job, 0, 2, terms=RoundTerms(0, 0, 0))
    job.wait(LIFE + 1)
    assert job.lost == [1]
    assert answers(job, 0) == answers(job, 2) == [True]
    job.ask(0, 2)
    assert job.ranks == [0, 2]


def test_a_rank_that_does_not_come_is_lost_after_the_deadline() -> None:
    job = begun(2, timeout=50.0)
    job.wait(300)  # they compute
    come(job, 0, terms=RoundTerms(0, 0, 0))
    job.wait(49)
    assert job.lost == []
    job.wait(2)
    assert job.lost == [1]


def test_ranks_whose_training_has_ended_wait_for_the_late_one() -> None:
    job = left_out(most_late=9)
    come(job, 0, 1, terms=None)
    told = len(answers(job, 0))
    job.wait(30)
    assert len(answers(job, 0)) == told
    job.ask(2)
    assert answers(job, 0)[told:] == [True]


def test_one_that_still_trains_gives_its_terms_to_those_that_have_ended() -> None:
    job = begun(3)
    come(job, 0, terms=None)
    come(job, 1)
    job.wait(2)
    assert answers(job, 0) == answers(job, 1) == [True]


def test_new_processes_and_hosts_that_leave_make_room_at_an_exchange() -> None:
    job = begun(2, most=3)
    new = job.start()
    job.arrive(new)
    come(job, 0, 1)
    assert answers(job, 0) == answers(job, 1) == [True]
    job.ask(0, 1, commits=1)
    assert job.ranks == [0, 1, new]
    job.membership.retire(0)
    job.deliver()
    come(job, 0, 1, new)
    assert answers(job, 1) == [True, True]
    job.ask(0, 1, new, commits=2)
    assert job.ranks == [1, new]


class Replica:
    """A process that computes, comes to an exchange, does as it is told, and computes again."""

    def __init__(self, job: Job, number: int) -> None:
        self.job, self.number = job, number
        self.computes_until = 0.0
        self.is_here = False
        self.read = len(job.messages[number])
        self.exchanges = 0

    def go_on(self, next_length: float) -> None:
        """What it does by now; it computes for `next_length` after an exchange."""
        for message in self.job.messages[self.number][self.read :]:
            self.read += 1
            if message["kind"] == "go":
                self.is_here = False
                if message["room"]:
                    self.computes_until = float("inf")
                    self.job.ask(self.number, commits=self.exchanges)
                else:
                    self.exchanges += 1
                    self.computes_until = self.job.now + next_length
            elif message["kind"] == "place":
                self.computes_until = self.job.now
        if not self.is_here and self.job.now >= self.computes_until:
            self.is_here = True
            come(self.job, self.number, terms=RoundTerms(2, 0.1, 2))


@pytest.mark.parametrize("seed", range(100))
def test_random_lengths_and_losses_never_stop_the_exchanges(seed: int) -> None:
    chance = random.Random(seed)
    job = begun(5, timeout=1000.0)
    replicas = {number: Replica(job, number) for number in range(5)}

    def run(rounds: int, longest: float) -> None:
        for _ in range(rounds):
            job.wait(0.5)
            for each in chance.sample(list(replicas.values()), len(replicas)):
                each.go_on(chance.uniform(0, longest))

    for _ in range(10):
        run(20, longest=30.0)
        if len(replicas) > 3 and chance.random() < 0.3:
            lost = chance.choice(sorted(replicas))
            del replicas[lost]
            job.lose(lost)
    run(200, longest=0.2)
    assert sorted(job.ranks) == sorted(replicas)
    assert job.lost == []
    before = {each.number: each.exchanges for each in replicas.values()}
    run(40, longest=0.2)
    assert all(each.exchanges > before[each.number] + 5 for each in replicas.values())

# SPDX-License-Identifier: Apache-2.0
"""A rank that raises once in a training of several ranks: the loop, and what all frameworks promise of its end.

A framework's test says where its training raises, and gives run_steps() its step. Then all ranks go on as they would
have, or all get an error within a step; their replicas never differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hipress import runtime
from hipress.errors import HipressError

WORLD, FAULTY, STEPS, FAULT = 3, 1, 5, 2

#: Fingerprints of the replica after each step; type and text of the error that ended the training, or "".
Outcome: TypeAlias = tuple[list[str], str, str]


class Boom(Exception):
    """What the faulty rank raises."""


class Fault:
    """Comes once: on rank FAULTY, in step FAULT, at one site."""

    def __init__(self, site: str) -> None:
        self.site = site
        self._waiting = runtime.rank() == FAULTY

    def comes(self, step: int, here: str = "") -> bool:
        """Whether it comes here and now; `here` empty: wherever its site is."""
        if not self._waiting or step != FAULT or here not in ("", self.site):
            return False
        self._waiting = False
        return True

    def raise_at(self, here: str, step: int) -> None:
        """Raises Boom if it comes here and now."""
        if self.comes(step, here):
            raise Boom(f"in {here}")


def run_steps(
    step: Callable[[int], None],
    fingerprint: Callable[[], str],
    shutdown: Callable[[], None],
    *,
    action: str,
    caught: tuple[type[BaseException], ...] = (Boom,),
    raised: tuple[type[BaseException], ...] = (),
    own_error: Callable[[BaseException], BaseException | None] = lambda error: None,
    skip: Callable[[], None] | None = None,
) -> Outcome:
    """A training whose script catches what the faulty rank raises, and then does `action`.

    Arguments:
        action: "repeat" the step, "go on" with the next one, "end" the training, "raise" the error again, or "skip" the
            batch.
        caught: what the script catches, but for errors of HiPress.
        raised: other errors that may end the training, beside HiPress' and `caught`.
        own_error: HiPress' error that one of the framework's carries.
        skip: what the script does to skip the batch.
    """
    seen: list[str] = []
    number = 0
    try:
        while number < STEPS:
            try:
                step(number)
            except caught as error:
                if isinstance(error, HipressError) or own_error(error) is not None or action == "raise":
                    raise
                if action == "end":
                    break
                if action == "skip":
                    assert skip is not None
                    skip()
                    seen.append(fingerprint())
                number += action != "repeat"
                continue
            seen.append(fingerprint())
            number += 1
        shutdown()
    except (HipressError, *caught, *raised) as error:
        own = own_error(error) or error
        return seen, type(own).__name__, str(own)
    return seen, "", ""


def outcomes_of(run: Callable[..., list[Any]], train: Callable[..., Outcome], *arguments: str) -> list[Outcome]:
    """Of all ranks. Their replicas were the same after every step that they have taken."""
    outcomes: list[Outcome] = run(train, WORLD, *arguments, HIPRESS_TIMEOUT="60")
    longest = max((seen for seen, _, _ in outcomes), key=len)
    assert all(seen == longest[: len(seen)] for seen, _, _ in outcomes), "the replicas differ"
    return outcomes


def check_that_all_steps_were_taken(outcomes: list[Outcome]) -> None:
    """The faulty rank has repeated its step."""
    for seen, kind, text in outcomes:
        assert (len(seen), kind) == (STEPS, ""), text


def check_that_the_open_step_ended_all(outcomes: list[Outcome], action: str, *texts: str) -> None:
    """The faulty rank left a step that it had begun: the others learn why, with all of `texts`."""
    for rank, (seen, kind, text) in enumerate(outcomes):
        assert len(seen) == FAULT
        if rank == FAULTY and action == "end":
            continue
        assert kind == ("PeerLost" if action == "end" else "Mismatch"), text
        for part in (f"rank {FAULTY}", "raised", *texts):
            assert part in text


def check_that_the_missed_update_ended_all(outcomes: list[Outcome]) -> None:
    """The others have made an update that the faulty rank has not made."""
    for seen, kind, text in outcomes:
        assert len(seen) <= FAULT + 1
        assert kind == "Mismatch", text
        assert f"rank {FAULTY} did not make an update of" in text


def check_that_the_update_ended_all(outcomes: list[Outcome], action: str, where: str) -> None:
    """The faulty rank raised in the middle of an update."""
    for rank, (seen, kind, text) in enumerate(outcomes):
        if rank == FAULTY and action in ("end", "raise"):
            continue
        assert len(seen) <= FAULT + 1
        assert kind == "Mismatch", text
        assert f"rank {FAULTY} raised Boom: in {where}" in text


def check_that_the_others_name_who_left(outcomes: list[Outcome], steps: int = FAULT) -> None:
    """The faulty rank called shutdown() after `steps` steps."""
    for rank, (seen, kind, text) in enumerate(outcomes):
        assert len(seen) == steps
        if rank != FAULTY:
            assert kind == "PeerLost"
            assert f"rank {FAULTY} has left the job (it called shutdown() after {steps} steps)" in text

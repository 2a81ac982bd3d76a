# SPDX-License-Identifier: Apache-2.0
"""A rank that raises once in a training of several ranks: the training loop, and the promises of all frameworks for
this case.

A framework's test says where its training raises, and gives run_steps() its step. Then either all ranks go on as
without the fault, or all ranks get an error within a step. Their replicas never differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hipress import runtime
from hipress.errors import HipressError

WORLD, FAULTY, STEPS, FAULT = 3, 1, 5, 2

#: The fingerprints of the replica after each step, and the type and text of the error that ended the training, or "".
Outcome: TypeAlias = tuple[list[str], str, str]


class Boom(Exception):
    """The exception that the faulty rank raises."""


class Fault:
    """A fault that happens once: on rank FAULTY, in step FAULT, at one place of the training."""

    def __init__(self, site: str) -> None:
        self.site = site
        self._waiting = runtime.rank() == FAULTY

    def comes(self, step: int, here: str = "") -> bool:
        """Whether the fault happens here and now. An empty `here` matches every place."""
        if not self._waiting or step != FAULT or here not in ("", self.site):
            return False
        self._waiting = False
        return True

    def raise_at(self, here: str, step: int) -> None:
        """Raises Boom if the fault happens here and now."""
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
    """Runs a training whose script catches the faulty rank's exception and then does `action`.

    Arguments:
        action: "repeat" the step, "go on" with the next step, "end" the training, "raise" the exception again, or
            "skip" the batch.
        caught: the exceptions that the script catches, besides HiPress's errors.
        raised: other exceptions that may end the training, besides HiPress's errors and `caught`.
        own_error: returns the HiPress error inside an exception of the framework.
        skip: the function that the script calls to skip the batch.
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
    """The outcomes of all ranks. Checks that the replicas were the same after every step that the ranks have made."""
    outcomes: list[Outcome] = run(train, WORLD, *arguments, HIPRESS_TIMEOUT="60")
    longest = max((seen for seen, _, _ in outcomes), key=len)
    assert all(seen == longest[: len(seen)] for seen, _, _ in outcomes), "the replicas differ"
    return outcomes


def check_that_all_steps_were_taken(outcomes: list[Outcome]) -> None:
    """Checks that all ranks made all steps, because the faulty rank repeated its step."""
    for seen, kind, text in outcomes:
        assert (len(seen), kind) == (STEPS, ""), text


def check_that_the_open_step_ended_all(outcomes: list[Outcome], action: str, *texts: str) -> None:
    """Checks the errors after the faulty rank left a step that it had begun: the others learn the reason, with all of
    `texts`."""
    for rank, (seen, kind, text) in enumerate(outcomes):
        assert len(seen) == FAULT
        if rank == FAULTY and action == "end":
            continue
        assert kind == ("PeerLost" if action == "end" else "Mismatch"), text
        for part in (f"rank {FAULTY}", "raised", *texts):
            assert part in text


def check_that_the_missed_update_ended_all(outcomes: list[Outcome]) -> None:
    """Checks the errors of all ranks: the other ranks made an update that the faulty rank did not make."""
    for seen, kind, text in outcomes:
        assert len(seen) <= FAULT + 1
        assert kind == "Mismatch", text
        assert f"rank {FAULTY} did not make an update of" in text


def check_that_the_update_ended_all(outcomes: list[Outcome], action: str, where: str) -> None:
    """Checks the errors of all ranks after the faulty rank raised in the middle of an update."""
    for rank, (seen, kind, text) in enumerate(outcomes):
        if rank == FAULTY and action in ("end", "raise"):
            continue
        assert len(seen) <= FAULT + 1
        assert kind == "Mismatch", text
        assert f"rank {FAULTY} raised Boom: in {where}" in text


def check_that_the_others_name_who_left(outcomes: list[Outcome], steps: int = FAULT) -> None:
    """Checks the errors of the other ranks after the faulty rank called shutdown() after `steps` steps."""
    for rank, (seen, kind, text) in enumerate(outcomes):
        assert len(seen) == steps
        if rank != FAULTY:
            assert kind == "PeerLost"
            assert f"rank {FAULTY} has left the job (it called shutdown() after {steps} steps)" in text

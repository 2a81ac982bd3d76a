# SPDX-License-Identifier: Apache-2.0
"""`each` runs every case, and reports every failure with its parameters."""

from __future__ import annotations

import pytest

from tests.cases import cases_of, each


def test_every_case_runs_once_with_the_fixtures() -> None:
    seen = []

    @each("a", [1, 2])
    @each(("b", "c"), [(3, 4), (5, 6), (7, 8)])
    def test(fixture: str, a: int, b: int, c: int) -> None:
        seen.append((fixture, a, b, c))

    test(fixture="f")
    assert seen == [("f", a, b, c) for a in (1, 2) for b, c in ((3, 4), (5, 6), (7, 8))]
    assert cases_of(test) == 6


def test_all_failures_are_reported_and_do_not_stop_the_others() -> None:
    @each("number", range(6))
    def test(number: int) -> None:
        assert number % 2 == 0, f"{number} is odd"

    with pytest.raises(pytest.fail.Exception) as caught:
        test()
    report = str(caught.value)
    assert report.startswith("3 of 6 cases failed")
    for number in range(6):
        assert (f"number={number}\n" in report) == (f"{number} is odd" in report) == (number % 2 == 1)


def test_a_test_is_skipped_only_if_all_of_its_cases_are() -> None:
    @each("number", [1, 2])
    def test(number: int, least: int) -> None:
        if number < least:
            pytest.skip("too small")

    test(least=2)
    with pytest.raises(pytest.skip.Exception, match="too small"):
        test(least=3)


def test_names_that_the_test_does_not_have_are_refused() -> None:
    with pytest.raises(AssertionError, match="has no"):
        each("b", [1])(lambda a: None)

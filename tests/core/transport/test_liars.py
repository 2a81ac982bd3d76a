# SPDX-License-Identifier: Apache-2.0
"""A rank that knows the token but lies ends the job with an error that names the rank, and no rank uses its data."""

from __future__ import annotations

import subprocess

import pytest

from tests.core.transport.programs import program

pytestmark = pytest.mark.slow

LIES = ["elements", "size", "said size", "codec", "dtype", "magic", "version", "flags", "reference"]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    result = subprocess.run([str(program("liars"))], capture_output=True, text=True, timeout=200, check=True)
    return dict(line.split("\t", 1) for line in result.stdout.splitlines() if "\t" in line)


def test_who_does_not_lie_is_believed(outcomes: dict[str, str]) -> None:
    assert outcomes["nothing"] == "well"


@pytest.mark.parametrize("lie", LIES)
def test_message_that_was_not_agreed_on_names_its_sender(outcomes: dict[str, str], lie: str) -> None:
    assert "tensor 'weight'" in outcomes[lie]
    assert "from rank 1" in outcomes[lie]


@pytest.mark.parametrize("lie", ["step", "tensor", "flood"])
def test_messages_that_nobody_asked_for_are_no_answer(outcomes: dict[str, str], lie: str) -> None:
    assert "rank 1" in outcomes[lie]
    assert outcomes[lie] not in ("well", "wrong values", "too much was kept")

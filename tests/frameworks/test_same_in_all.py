# SPDX-License-Identifier: Apache-2.0
"""Compares the files that the worlds of the frameworks have written."""

from __future__ import annotations

import json

import pytest

from tests.frameworks.adapters import present
from tests.frameworks.checks.training import CODECS
from tests.frameworks.files import DIRECTORY
from tests.frameworks.test_conformance import SIZES, world

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("framework", present())
@pytest.mark.parametrize("size", SIZES)
def test_the_same_input_gives_the_same_bytes_and_the_same_result(framework: str, size: int) -> None:
    """The files of this framework equal the files of every other framework whose tests have run; each framework has its
    own environment."""
    world(framework, size)  # this run has written this environment's files
    for rank in range(size):
        own = json.loads((DIRECTORY / f"{framework}.{size}.{rank}.json").read_text())
        assert list(own) == CODECS
        for file in sorted(DIRECTORY.glob(f"*.{size}.{rank}.json")):
            assert json.loads(file.read_text()) == own, f"{file.name} and {framework}'s differ"


@pytest.mark.parametrize("framework", present())
@pytest.mark.parametrize("size", SIZES)
def test_all_ranks_have_the_same_result(framework: str, size: int) -> None:
    world(framework, size)
    ranks = [json.loads((DIRECTORY / f"{framework}.{size}.{rank}.json").read_text()) for rank in range(size)]
    for codec in CODECS:
        assert len({found[codec]["result"] for found in ranks}) == 1, codec

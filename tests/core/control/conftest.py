# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from hipress import _core
from tests.core.control.control_ranks import TOKEN, World, make_world


@pytest.fixture(params=["local", "tcp"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def world(kind: str) -> Iterator[World]:
    with make_world(kind, 4) as made:
        yield made


@pytest.fixture
def tcp_world() -> Iterator[World]:
    with make_world("tcp", 3) as made:
        yield made


@pytest.fixture
def tcp_server() -> Iterator[_core.ControlServer]:
    with closing(_core.ControlServer(world_size=2, token=TOKEN)) as made:
        yield made

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hipress import _core
from tests.core.plugin import momentum_library


def at_each_level(levels: Sequence[str] | None = None) -> Iterator[str]:
    """Sets each of these instruction-set levels, by default all that this processor has, and yields its name while it
    is in force."""
    before = _core.isa_level()
    try:
        for level in _core.isa_levels() if levels is None else levels:
            _core.set_isa_level(level)
            yield level
    finally:
        _core.set_isa_level(before)


@pytest.fixture(params=["generic", "x86-64-v3", "x86-64-v4"])
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """The instruction-set level; the test runs once for each level of this processor."""
    level: str = request.param
    if level not in _core.isa_levels():
        pytest.skip(f"this processor has no {level}")
    before = _core.isa_level()
    _core.set_isa_level(level)
    yield level
    _core.set_isa_level(before)


@pytest.fixture(scope="session")
def momentum_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the codec in tests/core/plugin."""
    return momentum_library(tmp_path_factory.mktemp("codec") / "momentum.so")


@pytest.fixture(scope="session")
def momentum_codec(momentum_path: Path) -> str:
    """The name of that codec, which stays loaded for the rest of the process."""
    return _core.load_codec_library(str(momentum_path))

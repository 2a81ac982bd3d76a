# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest

from hipress import _core


@pytest.fixture(params=["generic", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a test once per instruction-set level of this processor."""
    level: str = request.param
    if level not in _core.isa_levels():
        pytest.skip(f"this processor has no {level}")
    before = _core.isa_level()
    _core.set_isa_level(level)
    yield level
    _core.set_isa_level(before)

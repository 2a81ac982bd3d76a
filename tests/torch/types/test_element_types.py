# SPDX-License-Identifier: Apache-2.0
"""The table of torch's element types in the guide says what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.element_types import table, written
from tests.torch.ranks import run
from tests.torch.types import element_types

pytestmark = pytest.mark.slow


def test_every_way_in_is_right_or_refuses_each_type_by_name(tmp_path: Path) -> None:
    first, second = run(element_types.all_outcomes, 2, str(tmp_path))
    assert first == second
    assert written("torch (tests/torch/types)") == table(first, element_types.WAYS, element_types.present())

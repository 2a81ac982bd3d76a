# SPDX-License-Identifier: Apache-2.0
"""The table of TensorFlow's element types in the guide says what happens."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed (requirements/tensorflow.txt)")

from tests.frameworks.element_types import table, written
from tests.tensorflow.ranks import run
from tests.tensorflow.types import element_types

pytestmark = pytest.mark.slow


def test_every_way_in_is_right_or_refuses_each_type_by_name() -> None:
    first, second = run(element_types.all_outcomes, 2)
    assert first == second
    assert written("TensorFlow (tests/tensorflow/types)") == table(first, element_types.WAYS, element_types.present())

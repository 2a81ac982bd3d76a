# SPDX-License-Identifier: Apache-2.0
"""Skips the tests of the TensorFlow adapter in environments without TensorFlow (requirements/tensorflow.txt)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

#: Test files that also run without TensorFlow: they test the adapter's error.
_ANYWHERE = {"test_without_tensorflow.py"}


class _Skipped(pytest.Module):
    def collect(self) -> Any:
        pytest.skip("TensorFlow is not installed", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> pytest.Module | None:
    """Without TensorFlow, skips a module that would import it."""
    if importlib.util.find_spec("tensorflow") is None and module_path.name not in _ANYWHERE:
        return _Skipped.from_parent(parent, path=module_path)
    return None

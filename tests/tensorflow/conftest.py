# SPDX-License-Identifier: Apache-2.0
"""Tests of the TensorFlow adapter, for environments with TensorFlow (requirements/tensorflow.txt)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

#: What the adapter says where there is no TensorFlow is tested there.
_ANYWHERE = {"test_without_tensorflow.py"}


class _Skipped(pytest.Module):
    def collect(self) -> Any:
        pytest.skip("TensorFlow is not installed", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> pytest.Module | None:
    """Modules that import TensorFlow are not imported without it, but skipped."""
    if importlib.util.find_spec("tensorflow") is None and module_path.name not in _ANYWHERE:
        return _Skipped.from_parent(parent, path=module_path)
    return None

# SPDX-License-Identifier: Apache-2.0
"""Ranks of a framework. The framework's own tests use the same processes, because importing it takes longer than most
tests."""

from __future__ import annotations

import importlib
from typing import Any


def run(framework: str, function: Any, world_size: int, *arguments: Any, **variables: str) -> list[Any]:
    """Like Ranks.run(), in processes that have imported the framework."""
    ranks: Any = importlib.import_module(f"tests.{framework}.ranks")
    results: list[Any] = ranks.run(function, world_size, *arguments, **variables)
    return results

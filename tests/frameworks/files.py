# SPDX-License-Identifier: Apache-2.0
"""The folder for the files that the worlds of all frameworks write, and that a test compares."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).parents[2] / "build" / "conformance"

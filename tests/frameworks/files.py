# SPDX-License-Identifier: Apache-2.0
"""Where the worlds of all frameworks, each in its own environment, leave what is compared."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).parents[2] / "build" / "conformance"

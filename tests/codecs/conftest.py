# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.core.conftest import isa

__all__ = ["isa"]

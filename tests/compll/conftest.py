# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the expected messages and code anew")

# SPDX-License-Identifier: Apache-2.0
"""Runs the checks; the package's docstring explains them."""

from __future__ import annotations

import traceback
from functools import cache

import pytest

from hipress import runtime
from tests.frameworks.adapters import adapter_class, present
from tests.frameworks.checks import CHECKS
from tests.frameworks.files import DIRECTORY
from tests.frameworks.ranks import run
from tests.tiers import thorough

pytestmark = pytest.mark.slow

#: Of the worlds. Three ranks have what more ranks have.
SIZES = [3, thorough(1), thorough(2), thorough(4)]
#: Seconds that ranks wait for a rank that failed, or that is still importing its framework.
TIMEOUT = "60"
NOT_RUN = "not run, because the world had ended: "


def run_checks(framework: str) -> dict[str, str]:
    """Runs all checks on a rank. Returns check → error text, empty if the check passed."""
    adapter = adapter_class(framework)()
    adapter.module.init()
    outcomes: dict[str, str] = {}
    for name, check in CHECKS.items():
        if name in adapter.not_yet:
            continue
        try:
            check(adapter)
        except BaseException:
            outcomes[name] = traceback.format_exc()
            runtime.shutdown()
            return {**dict.fromkeys(CHECKS, NOT_RUN + name), **outcomes}
        outcomes[name] = ""
    return outcomes


@cache
def world(framework: str, size: int) -> list[dict[str, str]]:
    """The results of run_checks(), by rank."""
    options = {"HIPRESS_TIMEOUT": TIMEOUT, "HIPRESS_CONFORMANCE": str(DIRECTORY)}
    return run(framework, run_checks, size, framework, **options)


@pytest.mark.parametrize("framework", present())
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("check", list(CHECKS))
def test_conformance(framework: str, size: int, check: str) -> None:
    if check in (not_yet := adapter_class(framework).not_yet):
        pytest.skip(not_yet[check])
    failures = [
        f"rank {rank}: {outcomes[check]}" for rank, outcomes in enumerate(world(framework, size)) if outcomes[check]
    ]
    assert not failures, "\n".join(failures)

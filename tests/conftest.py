# SPDX-License-Identifier: Apache-2.0
"""How the processes of `pytest -n` share the tests, and the signal handlers that all tests need."""

from __future__ import annotations

import signal
from typing import Any

import pytest

# A shell starts background commands with SIGINT ignored, and nohup starts a command with SIGHUP ignored. Without this
# change the programs that tests start would inherit the ignored signals.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

#: All test files of such a folder use the same worlds, so one process runs them.
_TOGETHER = ("tests/frameworks/",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts files with slow tests first, so that short files keep all processes busy at the end."""
    slow = {item.location[0] for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.location[0] not in slow)


@pytest.hookimpl(optionalhook=True)  # a hook of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        """One process runs all tests of a file in their order, so each fixture of the file is made once."""

        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return next((folder for folder in _TOGETHER if file.startswith(folder)), file)

    config.option.loadscopereorder = False
    return ByFile(config, log)

# SPDX-License-Identifier: Apache-2.0
"""How several processes (pytest -n) share the tests, and what all tests need."""

from __future__ import annotations

import signal
from typing import Any

import pytest

# A shell starts its background commands with SIGINT ignored, nohup with SIGHUP, and programs that tests start would
# inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

#: All files of such a folder use the same worlds.
_TOGETHER = ("tests/frameworks/",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests begin first: at the end, short ones keep all processes busy."""
    slow = {item.location[0] for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.location[0] not in slow)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        """One process runs all tests of a file, in their order: what a fixture of the file makes is made once."""

        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return next((folder for folder in _TOGETHER if file.startswith(folder)), file)

    config.option.loadscopereorder = False
    return ByFile(config, log)

# SPDX-License-Identifier: Apache-2.0
"""A command that measures on a busy machine warns about it."""

from __future__ import annotations

import os

import pytest

from hipress.secopa.commands.measured import warn_if_busy


@pytest.mark.parametrize(("load", "warns"), [(0.0, False), (2.0, False), (2.5, True), (40.0, True)])
def test_more_programs_than_cores(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], load: float, warns: bool
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1})
    warn_if_busy("hipress bench")
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("hipress bench: this machine is busy") if warns else not told.err

# SPDX-License-Identifier: Apache-2.0
"""Commands show their progress: a bar on a terminal, lines elsewhere, and nothing if they are short."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from types import SimpleNamespace

import pytest

from hipress.secopa.commands import progress as module
from hipress.secopa.commands.progress import progress


def test_a_short_command_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("hipress profile", 20) as stage:
        stage("links")
    assert capsys.readouterr() == ("", "")


def test_a_long_one_says_what_it_does_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([100.0, 101.0, 102.5, 103.0, 108.0])
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(times)))
    with progress("hipress profile", 20) as stage:
        for what in ("codec onebit", "codec tbq", "the engine", "links [1 of 2]"):
            stage(what)
    said, error = capsys.readouterr()
    assert said == ""
    assert error == (
        "hipress profile: codec tbq (2 of about 20 s)\nhipress profile: links [1 of 2] (8 of about 20 s)\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("seconds", ["None", "20"])
def test_a_terminal_has_a_bar_that_goes_away(seconds: str) -> None:
    script = (
        "from hipress.secopa.commands.progress import progress\n"
        f"with progress('hipress profile', {seconds}) as stage:\n"
        "    stage('links [1 of 2]')\n"
        "print('the end')\n"
    )
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # the terminal's other end is closed
        pass
    os.close(ours)
    assert child.wait(timeout=60) == 0
    assert b"hipress profile: links [1 of 2]" in shown
    assert b"the end" in shown
    assert b"\x1b[2K" in shown

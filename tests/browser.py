# SPDX-License-Identifier: Apache-2.0
"""Opens pages in a real browser, Chromium, which requirements/browser.txt installs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.environments import environment

_PROGRAM = Path(__file__).with_name("look_at_page.py")


def look(file: Path, width: int, picture: Path | None = None) -> dict[str, Any]:
    """Returns what a browser window of width `width` shows of the page; writes a screenshot to `picture`, or beside the
    page."""
    browser = environment("browser", ["browser"]) / "bin" / "python"
    picture = picture or file.with_name(f"page-{width}.png")
    done = subprocess.run(
        [str(browser), str(_PROGRAM), str(file), str(picture), str(width)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found

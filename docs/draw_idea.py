# SPDX-License-Identifier: Apache-2.0
"""Draws the README's picture: one backward pass, and each system's wait for the network after it.

python docs/draw_idea.py            write docs/images/idea.svg
python docs/draw_idea.py --check    fail if the picture does not show the committed result
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # needs no display
# Without dates and random names, equal results give nearly equal files.
matplotlib.rcParams["svg.hashsalt"] = "hipress"
matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: it is small, and screen readers read it

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "sync-4-1gbit-resnet50-onebit-backward.json"
PICTURE = ROOT / "docs" / "images" / "idea.svg"
#: The systems of the result's rows, and their names in the picture.
SYSTEMS = {"gloo-fp32": "Gloo, as in DDP", "gloo-fp16": "Gloo, fp16 hook", "best": "HiPress, onebit"}
_BACKWARD, _WAIT, _TEXT = "#4c72b0", "#dd8452", "#222222"


def rows() -> list[dict[str, Any]]:
    """The result's rows of SYSTEMS, in the order of SYSTEMS."""
    by_system = {row["system"]: row for row in json.loads(RESULT.read_text())}
    return [by_system[system] for system in SYSTEMS]


def label(row: dict[str, Any]) -> str:
    """The picture's text for a row."""
    wait = float(row["time_s"]) - float(row["backward_s"])
    return f"waits {wait * 1000:.3g} ms, each host sends {float(row['link_bytes']) / 1e6:.3g} MB"


def draw() -> str:
    """The picture as SVG."""
    from matplotlib import pyplot

    measured = rows()
    figure, axes = pyplot.subplots(figsize=(8, 2.6))
    for place, row in enumerate(reversed(measured)):
        backward, wait = float(row["backward_s"]), float(row["time_s"]) - float(row["backward_s"])
        axes.barh(place, backward, 0.55, color=_BACKWARD)
        axes.barh(place, wait, 0.55, left=backward, color=_WAIT)
        axes.text(backward + wait + 0.02, place, label(row), va="center", fontsize=9, color=_TEXT)
    axes.text(0.01, len(measured) - 1, "backward", va="center", fontsize=9, color="white")
    axes.text(0.6, len(measured) - 1, "waiting for the network", va="center", fontsize=9, color="white")
    axes.set_yticks(range(len(measured)), [SYSTEMS[row["system"]] for row in reversed(measured)])
    axes.set_xlim(0, 2.2)
    axes.set_xlabel("seconds of one step, forward pass and update left out")
    axes.set_title("ResNet-50 on four hosts with links of 1 Gbit/s", fontsize=10, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    return text.getvalue()


def main() -> int:
    """Writes or checks the picture. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if the picture shows other results")
    if not parser.parse_args().check:
        PICTURE.write_text(draw())
        return 0
    shown = PICTURE.read_text()
    if all(text in shown for row in rows() for text in (label(row), SYSTEMS[row["system"]])):
        return 0
    print(f"{PICTURE.relative_to(ROOT)} is not of {RESULT.relative_to(ROOT)}: run python docs/draw_idea.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())

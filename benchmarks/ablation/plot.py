# SPDX-License-Identifier: Apache-2.0
"""Draws results of ablation.py: the times while parts are added, and the times without each part.

    python benchmarks/ablation/plot.py FILE.json... --output PLOT.svg

Each result is a group of bars: the time until all gradients are averaged and, in a lighter colour, until the next
forward could end. The line is the time of the simulated computing alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import matplotlib

from benchmarks.harness.report import Row

matplotlib.use("Agg")  # needs no display
# Without dates and random names, equal results give equal files.
matplotlib.rcParams["svg.hashsalt"] = "hipress"


def draw(results: Sequence[Sequence[Row]], output: Path) -> None:
    """One panel per result, because the times of the settings differ by orders of magnitude."""
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(results), figsize=(4 * len(results), 4.4), squeeze=False)
    for axes, rows in zip(panels[0], results, strict=True):
        groups = list(dict.fromkeys(str(row["group"]) for row in rows))
        for place, row in enumerate(rows):
            color = f"C{groups.index(str(row['group']))}"
            axes.bar(place, _seconds(row, "step_s"), color=color, alpha=0.4)
            axes.bar(place, _seconds(row, "time_s"), width=0.5, color=color)
            axes.text(place, _seconds(row, "step_s"), f" {_seconds(row, 'step_s'):.3g} s", ha="center", fontsize=6)
        axes.axhline(_seconds(rows[0], "backward_s") + _seconds(rows[0], "forward_s"), color="black", linewidth=1)
        axes.set_xticks(range(len(rows)), [str(row["variant"]) for row in rows], rotation=60, ha="right", fontsize=6)
        # The first bars are much longer than the rest.
        axes.set_yscale("log")
        axes.set_ylim(bottom=min(_seconds(row, "time_s") for row in rows) / 2)
        first = rows[0]
        axes.set_title(
            f"{first['model']}, {first['nodes']} nodes, {first['rate']}, released: {first['release']}", fontsize=7
        )
    panels[0][0].set_ylabel("seconds: averaged; lighter: next forward pass over", fontsize=7)
    figure.tight_layout()
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, metadata={"Date": None})
    pyplot.close(figure)


def _seconds(row: Row, name: str) -> float:
    value = row[name]
    return float(value) if isinstance(value, int | float) else 0.0


def main() -> int:
    """Draws the plot. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", nargs="+", type=Path, metavar="FILE.json")
    parser.add_argument("--output", type=Path, required=True, metavar="PLOT.svg")
    given = parser.parse_args()
    try:
        draw([json.loads(file.read_text()) for file in given.results], given.output)
    except (OSError, ValueError, KeyError) as error:
        print(f"ablation/plot.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

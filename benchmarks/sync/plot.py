# SPDX-License-Identifier: Apache-2.0
"""Draws results of sync.py: a plot per setting, with a group of bars per model.

    python benchmarks/sync/plot.py FILE.json... --output PLOT.svg

All files of a plot have the same cluster and release. The height of a bar is the time divided by the time of the first
peer. The line across a bar is the time that the link needs for the bytes of this system.
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

_SETTING = ("nodes", "ranks_per_node", "rate", "release")


def draw(results: Sequence[Sequence[Row]], output: Path) -> None:
    """One group per result, one bar per row that has a time. Raises ValueError for results of different settings."""
    from matplotlib import pyplot

    settings = {tuple(row[name] for name in _SETTING) for rows in results for row in rows}
    if len(settings) != 1:
        raise ValueError(f"one plot shows one setting; these have {len(settings)}: {sorted(map(str, settings))}")
    ((nodes, ranks_per_node, rate, release),) = settings
    labels = list(dict.fromkeys(_label(row) for rows in results for row in rows if row["time_s"] is not None))
    figure, axes = pyplot.subplots(figsize=(2.2 + 2 * len(results), 4))
    width = 0.8 / len(labels)
    for group, rows in enumerate(results):
        for row in rows:
            time_s, ratio = _number(row, "time_s"), _number(row, "speedup_ratio")
            if time_s is None or ratio is None:
                continue
            position = labels.index(_label(row))
            place = group + (position - (len(labels) - 1) / 2) * width
            axes.bar(place, 1 / ratio, width, color=f"C{position}", label=labels[position])
            axes.text(place, 1 / ratio, f"{time_s:.2g} s", ha="center", va="bottom", fontsize=6, rotation=90)
            limit_s = _number(row, "link_limit_s")
            if limit_s is not None:
                axes.hlines(limit_s / time_s / ratio, place - width / 2, place + width / 2, color="black", linewidth=1)
    axes.set_xticks(range(len(results)), [str(rows[0]["model"]) for rows in results])
    axes.set_ylabel("time, by the first peer's")
    axes.set_ylim(0, axes.get_ylim()[1] * 1.1)  # room for the numbers on the bars
    place_text = "this machine" if rate is None else f"{nodes} nodes, links: {rate}"
    ranks = "" if ranks_per_node == 1 or rate is None else f", {ranks_per_node} ranks per node"
    axes.set_title(f"Averaging gradients, {place_text}{ranks}, released: {release}; line: the link's limit", fontsize=7)
    shown = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    axes.legend(shown.values(), shown.keys(), fontsize=7)
    figure.tight_layout()
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, metadata={"Date": None})
    pyplot.close(figure)


def _label(row: Row) -> str:
    return str(row["system"]) if row["topology"] is None else f"{row['system']} ({row['topology']})"


def _number(row: Row, name: str) -> float | None:
    value = row[name]
    return float(value) if isinstance(value, int | float) else None


def main() -> int:
    """Draws the plot. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", nargs="+", type=Path, metavar="FILE.json")
    parser.add_argument("--output", type=Path, required=True, metavar="PLOT.svg")
    given = parser.parse_args()
    try:
        # The row "best" repeats another row.
        results = [[row for row in json.loads(file.read_text()) if row["system"] != "best"] for file in given.results]
        draw(results, given.output)
    except (OSError, ValueError, KeyError) as error:
        print(f"sync/plot.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

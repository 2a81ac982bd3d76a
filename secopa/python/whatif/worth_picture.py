# SPDX-License-Identifier: Apache-2.0
"""The answer of `hipress bench` as a picture: a bar for each codec, and a line at the uncompressed step."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from hipress.errors import InvalidArgument
from hipress.secopa.profile.quantities import seconds
from hipress.secopa.whatif.worth import Verdict, Worth

#: Colours that readers with a colour vision deficiency tell apart (Okabe and Ito); the labels say the same in words.
_COLOURS = {Verdict.PAYS: "#009e73", Verdict.LOSES: "#d55e00", Verdict.NEITHER: "#999999"}
_UNCOMPRESSED = "#444444"


def can_draw() -> bool:
    """Whether matplotlib is installed, which HiPress does not require."""
    return find_spec("matplotlib") is not None


def draw_worth(worth: Worth, sentence: str, path: Path) -> None:
    """Writes the picture in the format of the file's ending, such as .png. Raises InvalidArgument if it cannot be
    written."""
    from textwrap import fill

    from matplotlib.figure import Figure

    rows = worth.rows[::-1]  # the first bar is at the bottom
    figure = Figure(figsize=(7.5, 1.6 + 0.36 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    bars = axes.barh(
        [f"{row.name} ({row.topology})" for row in rows],
        [row.step_s * 1e3 for row in rows],
        color=[_COLOURS.get(row.verdict, _UNCOMPRESSED) for row in rows],
    )
    axes.bar_label(bars, [f"{seconds(row.step_s)}  {_said(row.verdict)}" for row in rows], padding=3)
    axes.axvline(worth.uncompressed.step_s * 1e3, color=_UNCOMPRESSED, linestyle="--", linewidth=1)
    axes.margins(x=0.3)
    axes.set_xlabel("predicted step (ms)")
    figure.suptitle(fill(sentence, 105), fontsize=9, x=0.01, horizontalalignment="left")
    axes.spines[["top", "right"]].set_visible(False)
    try:
        figure.savefig(path, dpi=144)
    except (OSError, ValueError) as error:  # ValueError: a format that matplotlib does not know
        raise InvalidArgument(f"cannot write {path}: {error}") from None


def _said(verdict: Verdict) -> str:
    return "" if verdict is Verdict.BASE else verdict.value

# SPDX-License-Identifier: Apache-2.0
"""Where figures go: a CSV file, a text file that Prometheus' node exporter collects, TensorBoard.

A writer is a function that takes Figures, so a user's own is one, too:

    lambda figures: wandb.log(figures.as_dict(), step=figures.step)
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from hipress.watching.figures import Figures

Writer: TypeAlias = Callable[[Figures], None]

#: Columns of the CSV file.
_COLUMNS = (
    "step",
    "gradient",
    "codec",
    "error",
    "fresh",
    "sent_bytes_per_step",
    "waited_s_per_step",
    "step_s",
)


def csv_file(path: str | os.PathLike[str]) -> Writer:
    """Appends a row for the whole model (an empty `gradient`), and one for each gradient that travels with a codec.

    A new file gets a line with the names of the columns. Raises OSError.
    """
    file = Path(path)

    def write(figures: Figures) -> None:
        is_new = not file.exists() or file.stat().st_size == 0
        with file.open("a", newline="") as stream:
            rows = csv.writer(stream)
            if is_new:
                rows.writerow(_COLUMNS)
            costs = (figures.sent_bytes, figures.waited_s, figures.step_s)
            rows.writerow([figures.step, "", "", figures.error, figures.fresh, *costs])
            for each in figures.tensors.values():
                rows.writerow([figures.step, each.name, each.codec, each.error, each.fresh, "", "", ""])

    return write


def prometheus_file(path: str | os.PathLike[str], **labels: str) -> Writer:
    """Replaces the file by the newest figures, in Prometheus' text format, for a collector of text files.

    `labels` go to every figure, such as `job="vision"`. Raises OSError.
    """

    file = Path(path)

    def write(figures: Figures) -> None:
        found: dict[str, list[str]] = {"step": [f"hipress_step{_braces(labels)} {figures.step}"]}
        for name, value in figures.as_dict(prefix="").items():
            figure, _, gradient = name.partition("/")
            own = {**labels, "gradient": gradient} if gradient else labels
            found.setdefault(figure, []).append(f"hipress_{figure}{_braces(own)} {_number(value)}")
        lines = [line for name, each in found.items() for line in (f"# TYPE hipress_{name} gauge", *each)]
        new = file.with_name(f"{file.name}.new")  # a collector reads files that end in .prom
        new.write_text("\n".join(lines) + "\n")
        new.replace(file)

    return write


def tensorboard(summary_writer: Any) -> Writer:
    """Adds each figure as a scalar to a torch.utils.tensorboard.SummaryWriter, or to another object with its
    add_scalar(name, value, step)."""

    def write(figures: Figures) -> None:
        for name, value in figures.as_dict().items():
            summary_writer.add_scalar(name, value, figures.step)

    return write


def _braces(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    escaped = {
        name: value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for name, value in labels.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"


def _number(value: float) -> str:
    return "+Inf" if value == math.inf else repr(value)

# SPDX-License-Identifier: Apache-2.0
"""Figures go to CSV files, Prometheus' text files, TensorBoard, and as flat dictionaries to others."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from hipress.watching import Figures, TensorFigures, csv_file, prometheus_file, tensorboard

_ROUGH = TensorFigures("a.weight", "onebit", 10, 2.0, 4.0, 3.0)
_EXACT = TensorFigures('odd "name"\\', "int8", 5, 0.0, 0.0, 0.0)


def _figures(step: int = 40) -> Figures:
    tensors = {each.name: each for each in (_ROUGH, _EXACT)}
    return Figures(step, 20, 0, sent_bytes=1000.0, waited_s=0.25, step_s=1.5, tensors=tensors)


def test_a_flat_dictionary_has_every_figure() -> None:
    assert _figures().as_dict() == {
        "hipress/steps_not_finite": 0.0,
        "hipress/sent_bytes_per_step": 1000.0,
        "hipress/waited_s_per_step": 0.25,
        "hipress/step_s": 1.5,
        "hipress/error": 0.5,
        "hipress/fresh": 0.75,
        "hipress/error/a.weight": 0.5,
        "hipress/fresh/a.weight": 0.75,
        'hipress/error/odd "name"\\': 0.0,
        'hipress/fresh/odd "name"\\': 1.0,
    }


def test_an_error_of_zeros_is_infinite() -> None:
    assert TensorFigures("w", "int8", 1, 1.0, 0.0, 0.0).error == math.inf


def test_a_csv_file_has_a_row_for_the_model_and_one_for_each_gradient(tmp_path: Path) -> None:
    write = csv_file(tmp_path / "metrics.csv")
    write(_figures(40))
    csv_file(tmp_path / "metrics.csv")(_figures(80))  # a resumed job goes on with the file
    with (tmp_path / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], row["gradient"]) for row in rows] == [
        (step, name) for step in ("40", "80") for name in ("", "a.weight", 'odd "name"\\')
    ]
    assert (rows[0]["fresh"], rows[0]["waited_s_per_step"], rows[1]["codec"]) == ("0.75", "0.25", "onebit")


def test_a_prometheus_file_has_the_newest_figures(tmp_path: Path) -> None:
    write = prometheus_file(tmp_path / "hipress.prom", job="vision")
    write(_figures(40))
    write(_figures(80))
    lines = (tmp_path / "hipress.prom").read_text().splitlines()
    assert 'hipress_step{job="vision"} 80' in lines
    assert 'hipress_error{job="vision"} 0.5' in lines
    assert 'hipress_error{job="vision",gradient="a.weight"} 0.5' in lines
    assert 'hipress_fresh{job="vision",gradient="odd \\"name\\"\\\\"} 1.0' in lines
    # The lines of a figure stand together, below its type.
    names = [line.split("{")[0].removeprefix("# TYPE ").removesuffix(" gauge") for line in lines]
    assert len([1 for before, name in zip(["", *names], names, strict=False) if name != before]) == len(set(names))
    assert [each.name for each in tmp_path.iterdir()] == ["hipress.prom"]


def test_a_prometheus_file_needs_no_labels(tmp_path: Path) -> None:
    infinite = TensorFigures("w", "int8", 1, 1.0, 0.0, 0.0)
    prometheus_file(tmp_path / "hipress.prom")(Figures(1, 1, 0, 0.0, 0.0, 0.0, {"w": infinite}))
    assert "hipress_error +Inf" in (tmp_path / "hipress.prom").read_text().splitlines()


def test_tensorboard_gets_scalars() -> None:
    class Board:
        def __init__(self) -> None:
            self.scalars: dict[str, tuple[float, int]] = {}

        def add_scalar(self, name: str, value: float, step: int) -> None:
            self.scalars[name] = value, step

    board = Board()
    tensorboard(board)(_figures())
    assert board.scalars["hipress/fresh/a.weight"] == (0.75, 40)

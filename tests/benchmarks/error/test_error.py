# SPDX-License-Identifier: Apache-2.0
"""benchmarks/error.py: its average is the engine's average, and its error follows the definition."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from benchmarks.error import command, gradients
from benchmarks.error.averages import averages, normalised_error


def drawn(ranks: int, *counts: int) -> list[list[np.ndarray]]:  # type: ignore[type-arg]
    generator = np.random.default_rng(0)
    return [[generator.standard_normal(count, dtype=np.float32) for count in counts] for _ in range(ranks)]


def test_the_exact_average_has_no_error_and_zeros_have_the_error_1() -> None:
    of_ranks = drawn(3, 1000, 5000)
    assert normalised_error(averages(of_ranks, "none", "ring"), of_ranks) < 1e-13
    assert normalised_error([np.zeros(1000, np.float32), np.zeros(5000, np.float32)], of_ranks) == 1


def test_fewer_bits_err_more_and_rings_of_codecs_without_feedback_more_than_ps() -> None:
    of_ranks = drawn(8, 20_000)
    errors = {
        (codec, topology): normalised_error(averages(of_ranks, codec, topology), of_ranks)
        for codec in ("bf16", "int8", "fp4_e2m1(error_feedback=false)")
        for topology in ("ps", "ring")
    }
    for topology in ("ps", "ring"):
        of_codecs = [error for (_, of), error in errors.items() if of == topology]
        assert of_codecs == sorted(of_codecs)
    assert errors["int8", "ring"] > 1.5 * errors["int8", "ps"]


def test_an_unknown_codec_ends_all_ranks_with_its_error() -> None:
    with pytest.raises(Exception, match="int9"):
        averages(drawn(2, 10), "int9", "ps")


@pytest.mark.parametrize("training", gradients.TRAININGS)
def test_ranks_have_gradients_of_the_same_weights_for_other_examples(training: str) -> None:
    one, other = gradients.gradients_of(training, ranks=2, steps=1)
    assert [len(gradient) for gradient in one] == [len(gradient) for gradient in other]
    assert min(gradient.nbytes for gradient in one) >= gradients.MIN_COMPRESS_BYTES
    for mine, theirs in zip(one, other, strict=True):
        # The ranks' gradients differ, but they have the order of magnitude of each other.
        assert 0 < np.linalg.norm(mine - theirs) < 2 * (np.linalg.norm(mine) + np.linalg.norm(theirs))


def test_a_row_for_each_combination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "gradients_of", lambda _training, ranks: drawn(ranks, 4096))
    file = tmp_path / "rows.json"
    chosen = ["--training", "digits", "--codec", "int8,onebit", "--topology", "ps,ring", "--ranks", "1,2"]
    monkeypatch.setattr(sys, "argv", ["error.py", *chosen, "--json", str(file)])
    assert command.main() == 0
    rows = json.loads(file.read_text())
    assert [(row["codec"], row["topology"], row["ranks"]) for row in rows] == [
        (codec, topology, ranks) for codec in ("int8", "onebit") for topology in ("ps", "ring") for ranks in (1, 2)
    ]
    # int8: a byte per element and a scale for 256 elements. onebit: a bit per element and two means.
    bits = {row["codec"]: row["bits_per_element"] for row in rows}
    assert bits == pytest.approx({"int8": 8.125, "onebit": 1 + 64 / 4096}, rel=1e-3)


@pytest.mark.parametrize("ranks", ["0", "many", "-1"])
def test_wrong_numbers_of_ranks_are_refused(ranks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["error.py", f"--ranks={ranks}"])
    with pytest.raises(SystemExit, match="2"):
        command.main()

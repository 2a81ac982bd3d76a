# SPDX-License-Identifier: Apache-2.0
"""docs/extending/codec.md: its programs compile and work, its commands run, and its tables are complete."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from hipress.compll import Interpreter, compile_text
from hipress.compll.ir.functions import FUNCTIONS
from hipress.compll.ir.operators import OPERATORS
from tests.compll.programs import normal
from tests.docs import pages

pytestmark = pytest.mark.slow

PAGE = "docs/extending/codec.md"
TEXT = (pages.ROOT / PAGE).read_text()


@pytest.mark.parametrize("program", pages.blocks(PAGE, "cpp"))
def test_programs(program: str) -> None:
    run, g = Interpreter(compile_text(program)), normal(1000)
    state = run.new_state(1000)
    message = run.encode(g, state)
    decoded = run.decode(message, 1000)
    assert len(message) <= run.max_encoded_bytes(1000) < 4000 / 10
    assert np.corrcoef(decoded, g)[0, 1] > 0.2
    if state:
        assert np.allclose(decoded + state["residual"], g, atol=1e-6)


def test_a_number_for_each_block_lasts() -> None:
    program = next(text for text in pages.blocks(PAGE, "cpp") if "SteadyEncode" in text)
    run = Interpreter(compile_text(program))
    state = run.new_state(2560)
    sent = []
    for step in range(60):
        message = run.encode(normal(2560, seed=step) * np.repeat(np.arange(1, 11, dtype=np.float32), 256), state)
        sent.append(int.from_bytes(message[:4], "little"))
        assert state["limit"].shape == (10,), step
    limits = state["limit"]
    assert np.corrcoef(limits, np.arange(1, 11))[0, 1] > 0.9, "a block of greater values has a greater limit"
    assert 40 < np.mean(sent[30:]) < 102, "about 8 of 256 values are sent, and fewer than take() would send"


@pytest.mark.parametrize("statements", pages.blocks(PAGE, "c"))
def test_pieces(statements: str) -> None:
    body = f"{statements}\ncompressed = concat(gradient);"
    compile_text(f"void XEncode(float* gradient, uint8* compressed) {{\n{body}\n}}", complete=False)


@pytest.fixture
def folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's folder, with the first program saved in it."""
    # The test does not set HIPRESS_CACHE, because readers do not set it.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    (tmp_path / "sign.cll").write_text(pages.blocks(PAGE, "cpp")[0])
    return tmp_path


def test_commands_and_python(folder: Path) -> None:
    output = pages.run(["bash", "-euc", pages.blocks(PAGE, "bash")[0]], folder)
    assert "1000 elements, 129 bytes (at most 129)" in output
    script = pages.blocks(PAGE, "python")[0]
    assert pages.run([sys.executable, "-c", script], folder).startswith("129 129 [")


def test_training(folder: Path) -> None:
    (folder / "train.py").write_text(pages.blocks(PAGE, "python")[1])
    output = pages.run(["bash", "-euc", pages.blocks(PAGE, "bash")[1]], folder)
    sent = re.search(r"^\[0\] sign: (\d+) bytes sent$", output, re.MULTILINE)
    assert sent, output
    # A rank sends ten gradients: half of each to the other rank, and half of the mean back. The first parameters travel
    # raw.
    assert int(sent[1]) < 7850 * 4 * 2


def test_building(folder: Path) -> None:
    output = pages.run(["bash", "-euc", pages.blocks(PAGE, "bash")[2]], folder)
    assert output.splitlines()[-1] == "sign"
    assert len(list((folder / "cpp").iterdir())) == 1 + 2 * 3
    for row in re.findall(r"^\| `-\S+.* \| `(sign\S*)` \|", TEXT, flags=re.MULTILINE):
        assert (folder / row).exists() or (folder / "cpp" / row).exists()


def test_tables_are_complete() -> None:
    cells = " ".join(re.findall(r"^\|([^|]*)\|", TEXT, flags=re.MULTILINE))
    assert set(re.findall(r"`(\w+)[<(]", cells)) >= {*FUNCTIONS, *OPERATORS, "random", "extract"}

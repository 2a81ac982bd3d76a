# SPDX-License-Identifier: Apache-2.0
"""The scripts of the guide for TensorFlow run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import pages
from tests.tiers import thorough


def test_the_checkpoint_of_keras_runs_on_two_ranks(tmp_path: Path) -> None:
    (script,) = [block for block in pages.blocks("docs/guide/checkpoints.md", "python") if "import keras" in block]
    (tmp_path / "train.py").write_text(script)
    assert "[0] loss " in pages.launch(tmp_path / "train.py", 2)


@pytest.mark.parametrize("number", [0, thorough(1), thorough(2)], ids=["fit", "optimizers", "own loop"])
def test_the_scripts_run_on_two_ranks(tmp_path: Path, number: int) -> None:
    script = pages.blocks("docs/guide/tensorflow.md", "python")[number]
    (tmp_path / "train.py").write_text(script)
    assert "[0] loss " in pages.launch(tmp_path / "train.py", 2)

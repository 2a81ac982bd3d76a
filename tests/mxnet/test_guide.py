# SPDX-License-Identifier: Apache-2.0
"""The script of the guide for MXNet runs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

from tests.docs import pages


def test_the_first_script_runs_on_two_ranks(tmp_path: Path) -> None:
    script = pages.blocks("docs/guide/mxnet.md", "python")[0]
    (tmp_path / "train.py").write_text(script)
    output = pages.launch(tmp_path / "train.py", 2)
    assert "[0] loss " in output
    assert " bytes sent" in output


def test_the_trainers_that_belong_to_codecs_run_on_two_ranks(tmp_path: Path) -> None:
    script = pages.blocks("docs/guide/mxnet.md", "python")[1]
    (tmp_path / "train.py").write_text(script)
    assert "[0] loss " in pages.launch(tmp_path / "train.py", 2)


def test_the_checkpoint_of_gluon_runs_on_two_ranks(tmp_path: Path) -> None:
    (script,) = [block for block in pages.blocks("docs/guide/checkpoints.md", "python") if "gluon" in block]
    (tmp_path / "train.py").write_text(script)
    assert "[0] loss " in pages.launch(tmp_path / "train.py", 2)

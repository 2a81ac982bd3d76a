# SPDX-License-Identifier: Apache-2.0
"""The script for model.fit() of the guide's page on elastic jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import pages


@pytest.mark.slow
def test_the_script_runs_as_the_page_says(tmp_path: Path) -> None:
    *_, script = pages.blocks("docs/guide/elastic.md", "python")
    (tmp_path / "fit.py").write_text(script)
    printed = pages.run(["bash", "-euc", "hipress run --elastic -np 2 python fit.py"], tmp_path)
    for rank in range(2):
        assert f"rank {rank} ends after 2 epochs" in printed

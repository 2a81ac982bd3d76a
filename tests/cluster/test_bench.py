# SPDX-License-Identifier: Apache-2.0
"""`hipress bench` between emulated hosts reports that compression pays on slow links, as the measured grid does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cluster import launch_on
from tests.launch.conftest import HIPRESS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.thorough
def test_at_1_gbit_per_second_it_pays(nodes: Any, tmp_path: Path) -> None:
    answer, picture = tmp_path / "bench.json", tmp_path / "bench.png"
    asked = ["--model", "resnet50", "--codec", "onebit", "--codec", "terngrad", "--seconds", "8"]
    written = ["--json", str(answer), "--picture", str(picture)]
    # In the measured grid of four hosts at 1 Gbit/s, both codecs make a step more than ten times as fast.
    assert launch_on(nodes, [*HIPRESS, "bench", *asked, *written], timeout=400.0) == 0
    worth = json.loads(answer.read_text())
    assert (worth["ranks"], worth["hosts"]) == (4, 4)
    assert worth["advice"].startswith("Compression pays here: ")
    assert [row["verdict"] for row in worth["rows"]] == ["-", "pays", "pays", "pays"]
    # 102 MB leave each host and the averages come back: at 125 MB/s this takes more than a second.
    assert worth["rows"][0]["step_s"] > 1.0
    assert worth["rows"][1]["times_as_fast"] > 3

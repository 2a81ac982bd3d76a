# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: its parts are drawn in their places, and the page requests no other file."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from hipress.secopa.plan.plan import Decision, Plan
from hipress.secopa.report.page import page
from hipress.secopa.report.run import Run
from hipress.secopa.report.trace import read_trace
from tests.browser import look
from tests.secopa.profiles import profile
from tests.secopa.report.traces import recorded

NAMES = [f"encoder.layer.{layer}.attention.output.dense.weight" for layer in range(3)] + [
    "<img src=http://127.0.0.1:9/leak.png onerror=alert(1)>"
]
SECTIONS = ["summary", "time", "when", "bytes", "gradients", "plan", "costs", "words"]
Box = list[float]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report page of a training with real engines."""
    folder = tmp_path_factory.mktemp("report")
    decisions = [
        Decision(
            name=name,
            elements=400_000,
            codec="onebit",
            topology="ps",
            partitions=2,
            predicted_s=0.002 * (index + 1),
            predicted_uncompressed_s=0.02,
            reason=f"sent in {index} ms instead of 20 ms, and encoded while others are sent",
        )
        for index, name in enumerate(NAMES)
    ]
    plan = Plan(
        made_by="a test", model="tiny", world=2, topology="ps", predicted_step_s=0.01, decisions=tuple(decisions)
    )
    trace = read_trace(recorded(folder / "trace.json", NAMES, 400_000))
    (folder / "page.html").write_text(page(Run(trace, plan, profile())), encoding="utf-8")
    return folder / "page.html"


@pytest.fixture(scope="module")
def seen(file: Path) -> dict[str, Any]:
    return look(file, 1280)


def figure(seen: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in seen["figures"] if one["id"] == name]
    return dict(found)


def inside(inner: Box, outer: Box) -> bool:
    return (
        inner[0] >= outer[0] - 1 and inner[1] >= outer[1] - 1 and inner[2] <= outer[2] + 1 and inner[3] <= outer[3] + 1
    )


def overlap(one: Box, other: Box) -> bool:
    return min(one[2], other[2]) - max(one[0], other[0]) > 1 and min(one[3], other[3]) - max(one[1], other[1]) > 1


def test_the_page_asks_for_nothing_and_has_no_script(seen: dict[str, Any]) -> None:
    assert [request for request in seen["requests"] if not request.startswith("file://")] == []
    assert len(seen["requests"]) == 1
    assert (seen["scripts"], seen["links"], seen["complaints"]) == (0, 0, [])


def test_every_section_is_to_be_seen(seen: dict[str, Any]) -> None:
    sections = seen["sections"]
    assert [section["id"] for section in sections] == SECTIONS
    for section in sections:
        left, top, right, bottom = section["box"]
        assert right - left > 300
        assert bottom - top > 40
        assert len(section["text"]) > 40
    assert seen["title"] == "A training run of tiny"
    assert NAMES[-1] in sections[SECTIONS.index("plan")]["text"]  # the page shows the name as text


@pytest.mark.parametrize("width", [1280, 480])
def test_nothing_is_wider_than_the_window(file: Path, seen: dict[str, Any], width: int) -> None:
    found = seen if width == 1280 else look(file, width)
    assert found["width"] <= found["window"] == width


@pytest.mark.parametrize("name", ["shares", "timeline", "saved", "comparison"])
def test_what_a_figure_draws_is_inside_it(seen: dict[str, Any], name: str) -> None:
    drawn = figure(seen, name)
    assert drawn["bars"]
    for part in (*drawn["bars"], *drawn["texts"]):
        assert inside(part["box"], drawn["box"]), part
    for one, other in combinations(drawn["texts"], 2):
        assert not overlap(one["box"], other["box"]), (one, other)


def test_the_timeline_shows_both_ranks_and_every_kind_of_work(seen: dict[str, Any]) -> None:
    drawn = figure(seen, "timeline")
    assert {text["text"] for text in drawn["texts"]} >= {
        "rank 0",
        "rank 1",
        "gradients",
        "codec",
        "sending",
        "receiving",
    }
    kinds = {bar["kind"]: bar["fill"] for bar in drawn["bars"]}
    assert set(kinds) == {"lane", "backward", "encode", "merge", "decode", "send", "recv"}
    assert len(set(kinds.values())) == len(kinds)
    bars = [bar for bar in drawn["bars"] if bar["kind"] != "lane"]
    assert all(bar["box"][2] > bar["box"][0] and bar["title"] for bar in bars)


def test_bars_are_as_long_as_what_they_stand_for(seen: dict[str, Any]) -> None:
    predicted = [bar for bar in figure(seen, "comparison")["bars"] if bar["kind"] == "predicted"]
    lengths = sorted(bar["box"][2] - bar["box"][0] for bar in predicted)
    assert [length / lengths[0] for length in lengths] == pytest.approx([1, 2, 3, 4], rel=0.05)


def test_colours_are_really_painted(seen: dict[str, Any]) -> None:
    for bar in figure(seen, "saved")["bars"] + figure(seen, "shares")["bars"]:
        if bar["box"][2] - bar["box"][0] > 4:
            assert f"rgb({', '.join(map(str, bar['painted']))})" == bar["fill"], bar

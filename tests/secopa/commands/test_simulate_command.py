# SPDX-License-Identifier: Apache-2.0
"""`hipress simulate`."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hipress.secopa.commands.simulate import app
from hipress.secopa.profile.quantities import parse_rate, parse_seconds, rate
from tests.secopa.profiles import linked, low_rank, profile

MODEL = Path(__file__).parents[3] / "benchmarks" / "models" / "resnet50.json"


@pytest.fixture
def measured(tmp_path):
    file = tmp_path / "profile.json"
    profile().write(file)
    return str(file)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def rows_of(tmp_path, *arguments):
    found = run(*arguments, "--json", tmp_path / "rows.json")
    assert found.exit_code == 0, found.output
    return json.loads((tmp_path / "rows.json").read_text())


def test_a_row_for_each_cluster_network_codec_and_topology(measured, tmp_path):
    rows = rows_of(
        tmp_path,
        "--profile",
        measured,
        "--model",
        MODEL,
        "--nodes",
        "2..8",
        "--bandwidth",
        "1gbit",
        "--bandwidth",
        "10gbit",
    )
    assert [row["nodes"] for row in rows[::4]] == [2, 4, 8] * 2
    assert {row["bandwidth_bytes_per_s"] for row in rows} == {1.25e8, 1.25e9}
    assert {(row["codec"], row["topology"]) for row in rows} == {
        (one, topology) for one in ("none", "onebit") for topology in ("ps", "ring")
    }
    slow, fast = (
        row["step_s"] for row in rows if row["nodes"] == 8 and (row["codec"], row["topology"]) == ("none", "ps")
    )
    assert slow > fast


def test_the_shortest_step_is_marked(measured):
    found = run("--profile", measured, "--model", MODEL, "--nodes", "4", "--codec", "none", "--topology", "ps")
    assert found.exit_code == 0
    assert found.output.count(" *") == 1


def test_backward_is_scaled(measured, tmp_path):
    common = ("--profile", measured, "--model", MODEL, "--nodes", "4", "--codec", "onebit", "--bandwidth", "25gbit")
    for row in rows_of(tmp_path, *common, "--backward", "2s"):
        assert 2 <= row["step_s"] < 2.1
        assert row["efficiency"] > 0.95


def test_emulated_nodes_take_longer_than_nodes_of_their_own(measured, tmp_path):
    common = ("--profile", measured, "--model", MODEL, "--nodes", "8", "--codec", "onebit", "--bandwidth", "100gbit")
    own, shared = (
        rows_of(tmp_path, *common, "--topology", "ps", "--backward", "1ms", *option)[0]["step_s"]
        for option in ((), ("--one-machine",))
    )
    assert shared > 3 * own


def test_a_plot_has_a_panel_per_network_and_a_line_per_way(measured, tmp_path):
    drawn = tmp_path / "plot.svg"
    found = run(
        *("--profile", measured, "--model", MODEL, "--nodes", "2,4"),
        *("--bandwidth", "1gbit", "--bandwidth", "10gbit", "--plot", drawn),
    )
    assert found.exit_code == 0
    tree = ElementTree.parse(drawn).getroot()
    lines = tree.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 * 4
    assert all(len(line.get("points", "").split()) == 2 for line in lines)
    text = " ".join(node.text or "" for node in tree.iter("{http://www.w3.org/2000/svg}text"))
    assert "links of 10 Gbit/s" in text
    assert "onebit, ring" in text


def test_the_network_with_which_compressing_is_pointless(measured):
    found = run("--profile", measured, "--model", MODEL, "--nodes", "4", "--topology", "ps", "--pointless")
    assert found.exit_code == 0
    assert "4 hosts: compressing saves less than 3% of a step with links of" in found.output


def test_codecs_of_linked_tensors_have_rows_where_the_ranks_and_the_gradients_can_have_them(tmp_path):
    file = tmp_path / "profile.json"
    every = {"shared": linked(4e9), "factors": low_rank(4e9)}
    profile().model_copy(update={"linked": every}).write(file)
    shapeless = tmp_path / "input.txt"
    shapeless.write_text("w,1048576\n")
    for model, nodes, codecs in (
        (MODEL, 8, ["none", "onebit", "shared", "factors"]),
        (MODEL, 16, ["none", "onebit", "factors"]),
        (shapeless, 8, ["none", "onebit", "shared"]),
    ):
        rows = rows_of(
            tmp_path, "--profile", file, "--model", model, "--nodes", nodes, "--topology", "ps", "--pointless"
        )
        assert [row["codec"] for row in rows] == codecs
    for codec, said in (("shared", "8 ranks at most, and there are 16"), ("factors", "the shape of 'w' is not known")):
        found = run("--profile", file, "--model", shapeless, "--nodes", "16", "--codec", codec)
        assert found.exit_code == 2
        assert said in " ".join(found.output.split())


def test_what_a_coordinator_would_have_to_do(measured):
    found = run("--profile", measured, "--model", MODEL, "--nodes", "1024", "--topology", "ps", "--coordinator")
    assert found.exit_code == 0
    assert "none over ps on 1024 ranks: 1047552 questions per step" in found.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--nodes", "many"), "--nodes many: expected numbers"),
        (("--nodes", "8..4"), "a range that begins at 1 or more"),
        (("--bandwidth", "fast"), "'fast': expected a rate"),
        (("--latency", "5"), "'5': expected a time"),
        (("--ranks-per-node", "2"), "no costs of shared memory"),
        (("--topology", "star"), "there is no topology 'star'"),
        (("--codec", "morse"), "has no codec 'morse'"),
        (("--codec", "none", "--pointless"), "expected a codec besides none"),
    ],
)
def test_what_cannot_be_simulated_is_refused(measured, arguments, said):
    found = run("--profile", measured, "--model", MODEL, "--nodes", "2", *arguments)
    assert found.exit_code == 2
    assert said in found.output


def test_without_gradients_there_is_nothing_to_simulate(measured):
    found = run("--profile", measured)
    assert found.exit_code == 2
    assert "expected --model FILE" in found.output


def test_rates_and_times_are_read_as_they_are_written():
    assert parse_rate("25gbit") == 25e9 / 8
    assert parse_rate("2.5 Mbit") == 2.5e6 / 8
    assert parse_seconds("50us") == pytest.approx(50e-6)
    assert rate(25e9 / 8) == "25 Gbit/s"
    assert rate(1.19e8) == "952 Mbit/s"

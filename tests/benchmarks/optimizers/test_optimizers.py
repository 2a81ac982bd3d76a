# SPDX-License-Identifier: Apache-2.0
"""benchmarks/optimizers.py works, and the documents' table shows its committed result."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
RESULT = ROOT / "benchmarks" / "results" / "optimizers.json"


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Any:
    return importlib.import_module("benchmarks.optimizers.job")


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "tables"))
    return importlib.import_module("optimizers_table")


@pytest.mark.slow
@pytest.mark.thorough
def test_a_few_steps_of_a_few_trainings(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    script = [sys.executable, str(ROOT / "benchmarks" / "optimizers.py"), "--json", str(file)]
    subprocess.run(
        [
            *script,
            "--ranks",
            "2",
            "--steps",
            "8",
            "--codec",
            "none,fp16,dgc,OneBitAdam,ZeroOneAdam,LAMB,OneBitLamb,DeMo",
            "--optimizer",
            "adamw,momentum",
        ],
        check=True,
    )
    rows = json.loads(file.read_text())
    names = [(row["optimizer"], row["codec"] if row["system"] == "hipress" else row["system"]) for row in rows]
    own = ("OneBitAdam", "ZeroOneAdam", "LAMB", "OneBitLamb", "DeMo")
    assert names == [
        *(("adamw", system) for system in ("ddp", "none", "fp16", "dgc", *own)),
        *(("momentum", system) for system in ("ddp", "none", "fp16", "dgc")),
        ("momentum-twice", "dgc"),
    ]
    losses = {name: row["loss_nats"] for name, row in zip(names, rows, strict=True)}
    for optimizer in ("adamw", "momentum"):
        assert losses[optimizer, "none"] == pytest.approx(losses[optimizer, "ddp"], abs=1e-4)
        assert losses[optimizer, "fp16"] == pytest.approx(losses[optimizer, "ddp"], abs=1e-3)
    # A codec changes the loss, so the training has used the codec.
    assert losses["adamw", "dgc"] != losses["adamw", "ddp"]
    assert losses["momentum", "dgc"] != losses["momentum-twice", "dgc"]
    assert len({losses["adamw", system] for system in ("ddp", *own)}) == 6
    sent = {codec: row["bytes"] for (_, codec), row in zip(names, rows, strict=True)}
    assert sent["ddp"] is None
    # fp16 sends half the bytes, and headers.
    assert 0.5 < sent["fp16"] / sent["none"] < 0.51
    frozen = {row["system"]: row["bytes_frozen"] for row in rows if row["frozen_after"] is not None}
    for system in ("OneBitAdam", "OneBitLamb"):
        assert sent["none"] / 30 < frozen[system] < sent["none"] / 20 < sent[system]
    assert frozen.keys() == {"OneBitAdam", "OneBitLamb", "ZeroOneAdam"}
    assert frozen["ZeroOneAdam"] < frozen["OneBitAdam"]  # two of the last six steps exchange nothing
    assert sent["LAMB"] == pytest.approx(sent["none"], rel=0.01)
    assert sent["DeMo"] < sent["none"] / 20
    # Small gradients travel raw.
    assert sent["dgc"] < sent["none"] / 50


def test_an_optimizer_with_its_own_rate_trains_once(job: Any) -> None:
    made = job.trials(["ddp", "OneBitAdam", "DeMo"], ["adamw", "adamw-fast", "sgd"])
    assert [(each.system, each.name, each.learning_rate) for each in made] == [
        *(("ddp", "adamw", 0.001), ("OneBitAdam", "adamw", 0.001), ("DeMo", "adamw", 0.003)),
        *(("ddp", "adamw-fast", 0.003), ("OneBitAdam", "adamw-fast", 0.003), ("ddp", "sgd", 0.3)),
    ]


def test_the_table_of_optimizers_that_belong_to_codecs(tables: Any) -> None:
    text = tables.own_table(
        [
            row("adamw", None, 2.0, system="ddp", seed=0),
            row("adamw", "onebit", 1.9, system="ZeroOneAdam", seed=0, bytes_frozen=4321, frozen_after=0.2),
            row("adamw", "32 coefficients", None, system="DeMo", seed=0),
        ]
    )
    assert text.splitlines()[2:] == [
        "| Optimizer | Learning rate | Loss | Sent per step and rank |",
        "|---|--:|--:|--:|",
        "| AdamW, DistributedDataParallel | 0.003 | 2.000 | – |",
        "| `ZeroOneAdam` | 0.003 | 1.900 | 4 kB, after 20% of the steps |",
        "| `DeMo` | 0.003 | no number | 12 kB |",
    ]
    assert tables.own_table(None) == "Not measured.\n"


def test_dgcs_momentum_is_applied_once(job: Any) -> None:
    made = job.trials(["ddp", "onebit", "dgc", "dgc(ratio=0.1)"], ["sgd", "momentum"])
    assert [(each.system, each.name, each.momentum) for each in made] == [
        *(("ddp", "sgd", 0.0), ("onebit", "sgd", 0.0), ("dgc(momentum=0)", "sgd", 0.0)),
        ("dgc(ratio=0.1, momentum=0)", "sgd", 0.0),
        *(("ddp", "momentum", 0.9), ("onebit", "momentum", 0.9), ("dgc", "momentum", 0.0)),
        *(("dgc", "momentum-twice", 0.9), ("dgc(ratio=0.1)", "momentum", 0.0)),
    ]


def test_the_committed_result_is_of_all_trainings(job: Any) -> None:
    codecs = importlib.import_module("benchmarks.optimizers.command").CODECS
    expected = {(each.name, each.system) for each in job.trials(["ddp", *codecs], list(job.OPTIMIZERS))}
    rows = json.loads(RESULT.read_text())
    systems = [row["codec"] if row["system"] == "hipress" else row["system"] for row in rows]
    assert set(zip((row["optimizer"] for row in rows), systems, strict=True)) == expected
    assert {(row["ranks"], row["steps"]) for row in rows} == {(4, 150)}
    assert 0.9e6 < rows[0]["parameters"] < 1.1e6


def test_the_committed_result_of_own_optimizers_is_of_all_of_them(job: Any) -> None:
    own = importlib.import_module("benchmarks.optimizers.own").OWN
    rows = json.loads(RESULT.with_name("adam-own-seed0.json").read_text())
    expected = [(each.name, each.system) for each in job.trials(["ddp", *own], ["adamw", "adamw-fast"])]
    assert sorted((row["optimizer"], row["system"]) for row in rows) == sorted(expected)
    assert {(row["ranks"], row["steps"], row["seed"]) for row in rows} == {(4, 600, 0)}
    losses = {(row["optimizer"], row["system"]): row["loss_nats"] for row in rows}
    for name in ("adamw", "adamw-fast"):
        assert losses[name, "OneBitAdam"] < losses[name, "ddp"] + 0.02


@pytest.mark.parametrize("codec", ["none", "fp16"])
def test_without_loss_adamw_ends_where_ddp_ends(codec: str) -> None:
    (row,) = [row for row in json.loads(RESULT.read_text()) if (row["optimizer"], row["codec"]) == ("adamw", codec)]
    assert abs(row["above_ddp_nats"]) < 1e-4


def row(optimizer: str, codec: str | None, loss: float | None, **more: Any) -> dict[str, Any]:
    above = None if loss is None else loss - 2.0
    known = {"learning_rate": 0.003, "bytes": None if codec is None else 12_345, "parameters": 1_000_000, "ranks": 4}
    known |= {"steps": 150, "sequences": 4, "python": "3.11.7", "loss_nats": loss, "above_ddp_nats": above}
    return {"optimizer": optimizer, "codec": codec, **known, **more}


def test_the_table(tables: Any) -> None:
    text = tables.optimizers_table(
        [
            *(row("sgd", None, 2.0), row("sgd", "dgc(momentum=0)", 2.0999), row("sgd", "onebit", None)),
            *(row("adamw", None, 2.0), row("adamw", "dgc", 2.1001), row("adamw", "onebit", 1.5)),
            row("adamw", "onebit", 1.9, system="OneBitAdam", bytes_frozen=4321, frozen_after=0.2),
            row("momentum-twice", "dgc", None),
        ]
    )
    assert text.splitlines()[2:] == [
        "| Codec | SGD, 0.003 | AdamW, 0.003 | Sent per step and rank |",
        "|---|--:|--:|--:|",
        "| DistributedDataParallel | 2.000 | 2.000 | – |",
        "| `dgc` | 2.100 | **2.100** | 12 kB |",
        "| `onebit` | **no number** | 1.500 | 12 kB |",
        "| `OneBitAdam` in place of AdamW |  | 1.900 | 4 kB, after 20% of the steps |",
        "",
        "`dgc` and an optimizer that has momentum, too: **no number**.",
    ]
    assert tables.optimizers_table(None) == "Not measured.\n"

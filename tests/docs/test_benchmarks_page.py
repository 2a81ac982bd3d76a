# SPDX-License-Identifier: Apache-2.0
"""docs/benchmarks.md and README show the numbers of the committed results."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs import pages

sys.path.insert(0, str(pages.ROOT / "docs"))
update = importlib.import_module("update_benchmarks")


def row(system: str, topology: str | None, time_s: float | None, **more: Any) -> dict[str, Any]:
    codec = system.partition(" ")[2] or "none"
    known = {"speedup_ratio": 1.0, "link_limit_s": 0.5, "compute_limit_s": None, "limit_ratio": 2.0, "cpu_limit_s": 0.1}
    return {"system": system, "codec": codec, "topology": topology, "time_s": time_s, **known, **more}


def write(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    (folder / f"{name}.json").write_text(json.dumps(rows))


def test_the_pages_are_in_step_with_the_results() -> None:
    pages.run([sys.executable, "docs/update_benchmarks.py", "--check"], pages.ROOT)


def test_without_results_nothing_is_claimed(tmp_path: Path) -> None:
    load = update.loader(tmp_path)
    assert update.peers_block(load) == "Not measured yet.\n"
    page = update.page(load, tmp_path)
    assert page.count("| not measured |") > 20
    assert "svg" not in page
    assert " ms" not in page


def test_what_there_is_is_shown(tmp_path: Path) -> None:
    onebit = row("hipress onebit", "ring", 0.25, compute_limit_s=0.125, speedup_ratio=8.0)
    slower = row("hipress onebit", "ps", 0.26)
    best = {**onebit, "system": "best"}
    horovod = row("horovod", None, None, speedup_ratio=None)
    gloo = row("gloo-fp32", None, 2.0)
    half = row("gloo-fp16", None, 0.255)
    write(tmp_path, "sync-4-1gbit-vgg19-onebit", slower, onebit, best, gloo, half, row("powersgd", None, 1.0), horovod)
    write(tmp_path, "sync-2-5gbit-gpt2-none", row("hipress none", "ps", 1.0), gloo)
    (tmp_path / "sync-4-1gbit-onebit.svg").touch()
    load = update.loader(tmp_path)
    page = update.page(load, tmp_path)
    ours = "| vgg19 | HiPress `onebit`, `ring` | 250 ms | 8.00 × | 1.02 × | 500 ms | 125 ms | 2.00 × | 40% |"
    assert ours in page
    assert "| vgg19 | HiPress `onebit`, `ps` | 260 ms | 1.00 × | **0.98 ×** |" in page
    assert "| vgg19 | torch's PowerSGD hook (Gloo), float32 factors | 1 s | 1.00 × | 0.26 × |" in page
    assert page.index(ours) < page.index("HiPress `onebit`, `ps`")
    assert "| vgg19 | Horovod (Gloo), float32 | not measured |" in page
    assert "| 2 | 5gbit | gpt2 | 1 s (`ps`) | 2 s | 0.50 |" in page
    assert "(../benchmarks/results/sync-4-1gbit-onebit.svg)" in page
    block = update.peers_block(load)
    assert "| vgg19 | 1gbit | 250 ms | 8.0 × | 1.0 × | 4.0 × | – | 2.00 × |" in block
    assert "| gpt2 | 1gbit | not measured |" in block
    assert "0.50 to 0.50 times as long as Gloo, in 1 of 16 settings" in block


def test_ablation_and_training(tmp_path: Path) -> None:
    setting = {"nodes": 4, "rate": "1gbit", "topology": "ps", "backward_s": 0.2, "forward_s": 0.1, "rounds": 7}
    gains = {"time_gain_ratio": 1.5, "step_gain_ratio": 0.96, "stall_s": -0.01, "time_s": 0.3, "step_s": 0.4}
    write(tmp_path, "ablation-4-1gbit-vgg19-backward", {"group": "g", "variant": "without bulk", **setting, **gains})
    shallow = {"group": "g", "variant": "the default", **setting, **gains, "port_limit_bytes": 131072}
    write(tmp_path, "ablation-8-1gbit-resnet50-schedules-none", shallow)
    step = {"system": "ddp", "time_s": 3.0, "alone_s": 2.0, "time_alone_ratio": 1.5, "speedup_ratio": None}
    half = {**step, "system": "ddp-fp16", "time_s": 2.5, "speedup_ratio": 1.2}
    hook = {**step, "system": "hook-int8", "time_s": 2.6, "speedup_ratio": 1.15, "group": "nccl"}
    write(tmp_path, "train-4-1gbit-bert-base", step, half, hook)
    page = update.page(update.loader(tmp_path), tmp_path)
    assert "| g: without bulk | 300 ms | 1.50 × | 400 ms | 0.96 × | 0 ms |" in page
    assert "4 hosts at 1gbit, `ps`; backward 200 ms, forward 100 ms; 7 turns." in page
    assert "4 hosts at 1gbit, 128 KiB of queue at each port of the switch, `ps`; backward 200 ms" in page
    assert "| bert-base | ddp | Gloo | 3 s | 2 s | 1.50 × | – | 0.83 × |" in page
    assert "| bert-base | hook-int8 | NCCL | 2.6 s | 2 s | 1.50 × | 1.15 × | **0.96 ×** |" in page


def test_blocks_get_into_their_places(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(f"a\n{update.BEGIN}old\n{update.END}b\n{update.BEGIN}{update.END}c\n")
    new = f"a\n{update.BEGIN}new\n{update.END}b\n{update.BEGIN}newer\n{update.END}c\n"
    assert update.with_blocks(file, "new\n", "newer\n") == new


def test_a_page_without_a_place_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("nothing")
    with pytest.raises(SystemExit, match=r"page\.md: expected lines"):
        update.with_blocks(file, "new\n")


def test_planning_in_the_guide(tmp_path: Path) -> None:
    run = {"rate": "1gbit", "codec": "onebit", "topology": "ps", "compressed": 3, "predicted_s": 0.11}
    uniform = [
        {**run, "system": "uniform", "time_s": 0.1},
        {**run, "system": "uniform", "codec": "none", "time_s": 1.0},
    ]
    plan = {**run, "system": "plan", "topology": None, "time_s": 0.105}
    write(tmp_path, "planning-4-1gbit-resnet50", *uniform, plan)
    block = update.guide_block(update.loader(tmp_path))
    assert "| 1gbit | 1 s | 100 ms (`onebit`, ps) | 110 ms | 105 ms | 3 |" in block
    assert "| unshaped | not measured |" in block


def test_links_that_changed_in_the_guide(tmp_path: Path) -> None:
    before = {"rate": "5gbit", "after_change": None, "steps": 30, "compressed": None, "gradients": 161, "time_s": 0.5}
    after = {**before, "rate": "1gbit", "after_change": 22, "compressed": 50, "time_s": 0.6}
    write(tmp_path, update.REPLANNING, before, after)
    block = update.changing_block(update.loader(tmp_path))
    assert "| 5gbit |  | 30 | no plan yet | 500 ms |" in block
    assert "| 1gbit | 22 | 30 | 50 of 161 compressed | 600 ms |" in block


def test_frameworks(tmp_path: Path) -> None:
    times = {"alone_s": 0.02, "distributed_s": 0.03, "adapter_per_tensor_s": 1.25e-5}
    write(tmp_path, "adapter-cost", {"framework": "torch", "tensors": 1000, **times})
    setting = {"topology": "ring", "codec": "tbq", "ranks": 2, "epochs": 16, "seeds": 3}
    torch = {"framework": "torch", **setting, "accuracy_percent": 98.5, "bytes": 161000}
    mxnet = {"framework": "mxnet", **setting, "accuracy_percent": 98.75, "bytes": 161000}
    write(tmp_path, "accuracy", torch, mxnet)
    page = update.page(update.loader(tmp_path), tmp_path)
    assert "| torch | 1000 | 20 ms | 30 ms | 12.5 µs |" in page
    assert "2 ranks, 16 epochs; means of 3 seeds. The frameworks differ by at most 0.25 points." in page
    assert "| `ring` | `tbq` | 98.50 % | 98.75 % | 161.0 kB |" in page


def test_plans_stand_beside_the_best_uniform_run(tmp_path: Path) -> None:
    def run(system: str, codec: str, topology: str | None, time_s: float, share: float) -> dict[str, Any]:
        planned = {"compressed": 76, "best_share": 1.04} if system == "plan" else {"compressed": 0, "best_share": None}
        return {
            "system": system,
            "codec": codec,
            "topology": topology,
            "time_s": time_s,
            "predicted_share": share,
            **planned,
        }

    write(
        tmp_path,
        "planning-4-none-resnet50",
        run("uniform", "none", "ps", 0.4, 0.9),
        run("uniform", "none", "ring", 0.5, 0.9),
        run("uniform", "onebit", "ps", 0.3, 1.0),
        run("uniform", "onebit", "ring", 0.25, 1.2),
        run("uniform", "tbq", "ring", 0.01, 3.0),
        run("plan", "onebit", None, 0.26, 1.05),
        run("plan", "onebit,tbq", None, 0.011, 1.05),
    )
    page = update.page(update.loader(tmp_path), tmp_path)
    assert "| resnet50 | unshaped | `onebit` | 400 ms | 250 ms (ring) | 260 ms | 76 | 1.04 × | 8% | 20% |" in page
    assert "| resnet50 | unshaped | any of them | 400 ms | 10 ms (ring) | 11 ms | 76 | 1.04 × |" in page
    assert "| resnet50 | 5gbit | not measured |" in page

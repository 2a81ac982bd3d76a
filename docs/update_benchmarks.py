# SPDX-License-Identifier: Apache-2.0
"""Writes the numbers of benchmarks/results into docs/benchmarks.md, README.md and docs/guide/planning.md, so that none
is typed by hand.

make bench                                      measure; writes the pages, too
python docs/update_benchmarks.py                write
python docs/update_benchmarks.py --check        fail if the pages are not in step with the results
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "docs")]

import benchmark_tables as tables  # noqa: E402 -- after the path
from models import MODELS  # noqa: E402
from planning_table import decision_table, planning_table, replanning_table, speed_table  # noqa: E402
from regenerate import PLANNED_MODELS, PLANNED_RATES, PLOTS, RATES, RESULTS, TRAINED  # noqa: E402

README, PAGE, RESULTS_FOLDER = ROOT / "README.md", ROOT / "docs" / "benchmarks.md", ROOT / "benchmarks" / "results"
GUIDE = ROOT / "docs" / "guide" / "planning.md"
REPLANNING = "replanning-2-5gbit-1gbit-resnet50"
BEGIN, END = "<!-- benchmarks: begin (docs/update_benchmarks.py) -->\n", "<!-- benchmarks: end -->\n"
Load = Callable[[str], tables.Result]

_HEAD = """\
# What was measured

<!-- Written by docs/update_benchmarks.py from benchmarks/results: change that, or measure again. -->

All nodes are [emulated on one machine](../benchmarks/README.md#cluster): links have the rate that is said, but all
ranks share the machine's cores, so what costs processor time weighs more here than on nodes with cores of their own.
Peers are measured in the same run, in turn with ours. [benchmarks/README.md](../benchmarks/README.md) says how, and
what each column means; `make bench` measures again and writes this page. Times are medians.
"""
_SYNC = """\
*Speedup*: by the first peer, Gloo as DistributedDataParallel uses it. *Limit of the link*: what the bytes that this
system sends take at the link's rate. *Limit of the codec*: what the cores would need for encoding and decoding alone.
*Time by limit*: by the larger of the two; 1 would be the limit itself. *Cores busy*: the share of the time that would
be enough for all that the processes computed, if all cores were busy all the time. What of it is above the codec's part
is the cost of copies, TCP and the runtime; what is missing to 100 % is waiting.
"""
_ADAPTERS = """\
Each adapter in its own framework's environment, in turn with the others: from all gradients there to all averages.
"""
_TWO_PER_NODE = """\
4 nodes, links of 1gbit. `hierarchical` sends half of what `ps` sends: it wins by as much as the links count. Where
eight ranks on two cores wait for the processor instead, as with the cheapest codec, adding up a neighbour's gradient
costs what encoding it would.
"""
_ABLATION = """\
*Averaged after*: until every rank had all averages. *Next forward over after*: until a forward pass could be over that
needs them in order. *Gain*: what the row's part is worth, as a ratio of times, the median of pairs; below 1 it loses.
*Waits*: for how long training would stand still.
"""
_ADAPTER_COST = """\
Models of many one-element tensors, in one process, so that nothing travels. Processor time of all threads: what
training needs for a step, and with a distributed optimizer. The difference is the adapter's, with the engine's part.
"""
_ACCURACY = """\
Handwritten digits: the share of test images that the trained network gets right; 0.17 % is one image. The frameworks
draw first weights and orders of images in their own ways. A training in which replicas differ has no result.
"""
_PLANNING = """\
All gradients of a model on 4 nodes, from all there to all averages. *Best uniform*: the fastest topology with that
codec for all of them. *Plan*: made from a profile that was measured just before, over the same links; *compressed* is
how many of its gradients are. *Plan by best*: its time by that of the best uniform run with its codecs or with none.
*Prediction off*: how far the timeline model's time is from the measured one, in the middle and at most, of the runs
with that codec, the plan and the uncompressed one.
"""
_MORE_NODES = """\
8 nodes, links of 1gbit; the profile was measured on 4 of such nodes.
"""
_REPLANNING = """\
`plan="auto"` in a training on 2 nodes with the gradients of ResNet-50 and a backward pass of 0.5 s that leaves the
processors free. The links' rate changes; all ranks change plans in the same step, with identical parameters at the end
and nothing lost of what codecs held back.
"""
_SPEED = """\
With the costs of the profile `sosp21-56g`, on one core.
"""
_TRAINING = """\
4 nodes, links of 1gbit, on the CPU; each rank has three images or four texts, if nothing else is said. With fewer
computing takes less, compressing as much, on the same two cores.
"""


def loader(folder: Path) -> Load:
    """What reads a result of that folder."""

    def load(name: str) -> tables.Result:
        file = folder / f"{name}.json"
        return json.loads(file.read_text()) if file.exists() else None

    return load


def page(load: Load, folder: Path) -> str:
    """The whole page."""
    parts = [_HEAD, "## Averaging gradients with onebit\n", _SYNC]
    for rate in RATES:
        results = {model: load(f"sync-4-{rate}-{model}-onebit") for model in MODELS}
        parts += [f"### 4 nodes, links of {rate}\n", tables.sync_table(results), _plot(f"sync-4-{rate}-onebit", folder)]
    parts += ["## Without compression\n", tables.none_table(_none(load))]
    parts += [_plot(f"sync-{nodes}-{rate}-none", folder) for nodes in (2, 4) for rate in RATES]
    both = {model: load(f"sync-4x2-1gbit-{model}") for model in ("resnet50", "bert-base")}
    parts += ["## Two ranks per node\n", _TWO_PER_NODE, tables.sync_table(both)]
    parts += [_plot("sync-4x2-1gbit", folder)]
    backward = {model: load(f"sync-4-1gbit-{model}-onebit-backward") for model in MODELS}
    parts += ["## Released in backward order\n", "4 nodes, links of 1gbit; times count from the start of backward.\n"]
    parts += [tables.sync_table(backward), _plot("sync-4-1gbit-onebit-backward", folder)]
    parts += ["## The same gradients through each framework\n", _ADAPTERS]
    parts += [tables.adapters_table(load("adapters-4-1gbit-resnet50-onebit"))]
    planned = {(rate, model): load(f"planning-4-{rate}-{model}") for rate in PLANNED_RATES for model in PLANNED_MODELS}
    parts += ["## Predictions and plans\n", _PLANNING, planning_table(planned)]
    parts += ["### More nodes than were measured\n", _MORE_NODES]
    parts += [planning_table({("1gbit", "resnet50"): load("planning-8-1gbit-resnet50")})]
    parts += ["### Links that change in training\n", _REPLANNING, replanning_table(load(REPLANNING))]
    parts += ["### What planning takes\n", _SPEED, speed_table(load("planning-speed"))]
    parts += ["## What each part gains\n", _ABLATION]
    for name in RESULTS:
        if name.startswith("ablation-"):
            parts += [f"### {name.removeprefix('ablation-')}\n", tables.ablation_table(load(name))]
    trained = {name.replace("-two-", ", two "): load(f"train-4-1gbit-{name}") for name in TRAINED}
    trained["resnet50, MXNet"] = load("train-4-1gbit-resnet50-mxnet")
    parts += [_plot("ablation", folder), "## Training steps\n", _TRAINING]
    parts += [tables.train_table(trained), "## Codecs\n", "One tensor of 64 MB, one thread.\n"]
    parts += [tables.codec_table(load("codec")), "## On this machine's loopback\n"]
    parts += ["Ranks of one host read each other's memory; Gloo takes TCP.\n"]
    loopback = {(str(n), size): load(f"sync-loopback-{n}x{size}") for n in (4, 2) for size in ("100M", "1M")}
    parts += [tables.loopback_table(loopback)]
    parts += ["## What an adapter costs\n", _ADAPTER_COST, tables.adapter_table(load("adapter-cost"))]
    parts += ["## Accuracy in each framework\n", _ACCURACY, tables.accuracy_table(load("accuracy"))]
    return "\n".join(part for part in parts if part)


def readme_block(load: Load) -> str:
    """What onebit saves, and what HiPress costs without it."""
    lines = []
    measured = 0
    for rate in RATES:
        for model in MODELS:
            result = load(f"sync-4-{rate}-{model}-onebit")
            ours = tables.fastest(result)
            if ours is None:
                lines.append((model, rate, tables.NOT_MEASURED, *[""] * 5))
                continue
            measured += 1
            time_s = float(ours["time_s"])
            peers = [tables.time_of(result, peer) for peer in ("gloo-fp32", "gloo-fp16", "powersgd", "horovod")]
            speedups = [tables.times(None if peer is None else peer / time_s, 1) for peer in peers]
            lines.append((model, rate, tables.seconds(time_s), *speedups, tables.times(ours.get("limit_ratio"))))
    if not measured:
        return f"{tables.NOT_MEASURED.capitalize()} yet.\n"
    peers_heads = "faster than Gloo: | its fp16 hook: | PowerSGD: | Horovod:"
    heads = f"Gradients of | Links | HiPress `onebit`: | {peers_heads} | Time by limit:"
    return tables.table(heads, lines) + "\n" + _without(load)


def guide_block(load: Load) -> str:
    """What came of planning ResNet-50."""
    return decision_table({rate: load(f"planning-4-{rate}-resnet50") for rate in PLANNED_RATES})


def changing_block(load: Load) -> str:
    """What came of links that changed."""
    return replanning_table(load(REPLANNING))


def _without(load: Load) -> str:
    """A sentence about the uncompressed ones."""
    ratios = [
        float(ours["time_s"]) / gloo
        for result in _none(load).values()
        if (ours := tables.fastest(result, "none")) and (gloo := tables.time_of(result, "gloo-fp32"))
    ]
    if not ratios:
        return "Without compression (`none`): not measured.\n"
    return (
        f"Without compression (`none`) HiPress takes {min(ratios):.2f} to {max(ratios):.2f} times as long as Gloo, in "
        f"{len(ratios)} of {len(_none(load))} settings of 2 and 4 nodes.\n"
    )


def _none(load: Load) -> dict[tuple[str, str, str], tables.Result]:
    return {
        (nodes, rate, model): load(f"sync-{nodes}-{rate}-{model}-none")
        for nodes in ("2", "4")
        for rate in RATES
        for model in MODELS
    }


def _plot(name: str, folder: Path) -> str:
    """Nothing where there is none."""
    assert name in PLOTS
    return f"![{name}](../benchmarks/results/{name}.svg)\n" if (folder / f"{name}.svg").exists() else ""


def with_blocks(file: Path, *blocks: str) -> str:
    """The file's text with the blocks in their places. Raises SystemExit if they have none."""
    text = ""
    rest = file.read_text()
    for block in blocks:
        before, begin, rest = rest.partition(BEGIN)
        _, end, rest = rest.partition(END)
        if not begin or not end:
            raise SystemExit(f"{file.name}: expected lines {BEGIN.strip()} and {END.strip()}, {len(blocks)} times")
        text += before + BEGIN + block + END
    return text + rest


def main() -> int:
    """Write, or compare; the exit code."""
    parser = argparse.ArgumentParser(description="Write the benchmarks' numbers into the pages that show them.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a page is out of step")
    check = parser.parse_args().check
    load = loader(RESULTS_FOLDER)
    pages = {
        PAGE: page(load, RESULTS_FOLDER),
        README: with_blocks(README, readme_block(load)),
        GUIDE: with_blocks(GUIDE, guide_block(load), changing_block(load)),
    }
    stale = [file for file, text in pages.items() if not file.exists() or file.read_text() != text]
    if check and stale:
        names = " and ".join(file.name for file in stale)
        print(f"{names} not in step with benchmarks/results: run python docs/update_benchmarks.py")
        return 1
    for file in stale:
        file.write_text(pages[file])
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Writes the numbers of benchmarks/results into docs/benchmarks.md, README.md and the guide's pages about
planning, choosing a codec and Adam, and into the evidence of the package, so that no number is typed by hand.

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
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "tables")]

import benchmark_tables as tables  # noqa: E402 -- after the path
from calls_table import CALLS, calls_table  # noqa: E402
from checkpoint_table import cost_table, resumed_table  # noqa: E402
from convergence_table import convergence_page  # noqa: E402
from diloco_table import diloco_table  # noqa: E402
from first_screen import averages_table, steps_table  # noqa: E402
from fsdp_table import FSDP, fsdp_table  # noqa: E402
from harm_table import cost_sentence, harm_table  # noqa: E402
from optimizers_table import adam_table, optimizers_table, own_table  # noqa: E402
from planning_table import decision_table, planning_table, replanning_table, speed_table  # noqa: E402

from benchmarks.convergence.evidence import evidence_text  # noqa: E402
from benchmarks.models import MODELS  # noqa: E402
from benchmarks.regenerate import (  # noqa: E402
    ADAM_OWN,
    ADAM_SEEDS,
    CHOSEN_RATES,
    GPU_TRAINED,
    OTHER_TEXT,
    PLANNED_MODELS,
    PLANNED_RATES,
    PLOTS,
    RATES,
    RESULTS,
    TRAINED,
)
from benchmarks.regenerate import CHECKPOINTS as RESUMED  # noqa: E402

README, PAGE, RESULTS_FOLDER = ROOT / "README.md", ROOT / "docs" / "benchmarks.md", ROOT / "benchmarks" / "results"
GUIDE = ROOT / "docs" / "guide" / "planning.md"
STREAMS = ROOT / "docs" / "guide" / "weight-streams.md"
WATCHING = ROOT / "docs" / "guide" / "pytorch" / "watching.md"
CHOOSING = ROOT / "docs" / "guide" / "choosing-a-codec.md"
ADAM = ROOT / "docs" / "guide" / "adam.md"
CONVERGENCE = ROOT / "docs" / "convergence.md"
EVIDENCE = ROOT / "secopa" / "python" / "evidence" / "evidence.json"
SELDOM = "diloco-4-100mbit"
LINKED = "planning-linked-4-1gbit-resnet50"
REPLANNING = "replanning-2-5gbit-1gbit-resnet50"
BEGIN, END = "<!-- benchmarks: begin (docs/update_benchmarks.py) -->\n", "<!-- benchmarks: end -->\n"
Load = Callable[[str], tables.Result]

_HEAD = """\
# Measurements

<!-- docs/update_benchmarks.py writes this page from benchmarks/results: change the script, or measure again.
     It is longer than 500 lines because it has a row for each measurement. -->

The hosts are [emulated on one machine](../benchmarks/README.md#cluster) with 2 cores (AMD EPYC with AVX-512). Each
link has the stated rate, but all ranks share the two cores. So processor time weighs more here than on hosts with
cores of their own. Peers are measured in the same run, in turns with HiPress. All times are medians.
**Bold: HiPress is slower than the peer of that column.** [benchmarks/README.md](../benchmarks/README.md) describes each
benchmark and column. Each section links to its result files. `make bench` measures everything again and writes this
page.

| question | section |
|---|---|
| How long is a training step? | [Training steps](#training-steps) |
| What does a training step on a GPU gain? | [Training steps on a GPU](#training-steps-on-a-gpu) |
| What does `codec="auto"` choose? | [Choosing in training](#choosing-in-training) |
| Which codecs change a training? | [What codecs change in a training](convergence.md) |
| How fast is HiPress beside Gloo, PowerSGD and Horovod? | [Beside other systems](#beside-other-systems) |
| How long does averaging take with compression? | [onebit](#averaging-gradients-with-onebit) |
| What does HiPress' hook gain over DDP's all-reduce? | [DDP's hook](#through-the-hook-of-distributeddataparallel) |
| How long does averaging take without compression? | [Without compression](#without-compression) |
| What do bundles, pipelining, priorities and link rounds gain? | [What each part gains](#what-each-part-gains) |
| When does `hierarchical` pay? | [Two ranks per host](#two-ranks-per-host) |
| How exact are predictions, and do plans pay? | [Predictions and plans](#predictions-and-plans) |
| How much processor time does planning take? | [What planning takes](#what-planning-takes) |
| What does synchronising seldom gain over slow links? | [Seldom](#synchronising-seldom) |
| What does FSDP2 gain if all of its traffic is compressed? | [FSDP2](#all-of-fsdp2s-traffic) |
| How long does a burst of calls take over a long link? | [Many calls](#many-calls-over-a-long-link) |
| How fast are the codecs? | [Codecs](#codecs), [on a GPU](#codecs-on-a-gpu) |
| How much do 8 and 4 bits for a value save? | [Eight and four bits](#eight-and-four-bits-for-each-value) |
| How fast is PowerSGD? | [PowerSGD](#powersgd-beside-torchs-hook) |
| How exact is a compressed average? | [Error](#error-of-the-average) |
| What does an adapter cost? | [What an adapter costs](#what-an-adapter-costs) |
| Does training reach the same accuracy? | [Accuracy](#accuracy-in-each-framework) |
| Does training go on well with another number of ranks? | [Resumed](#resumed-with-another-number-of-ranks) |
| What does taking codec states cost? | [Cost of codec states](#cost-of-codec-states) |
| What do 16 and 8 bits cost in a small training? | [Laboratory exercise](#the-laboratory-exercise) |
"""
_GPU = """\
`make bench-gpu` measures codecs with their states on a GPU. *Copy*: the same tensor from one place of the GPU's memory
to another. Encoding reads gradient and residual and writes the next residual, so it moves at least 1.5 times the bytes
of a copy. When this was measured, a codec with blocks read both twice, so it moved 2.5 times these bytes; now it reads
them once. Sorting and selecting (`threshold`, `dynamiq`, `sparseloco`, `adacomp`, `topk`) and the transforms of `thc`
are not yet fast.
"""
_HOOKS = """\
The rows of DDP's hook are [hipress.torch.ddp](guide/pytorch.md) with DDP's buckets over the model's own Gloo group.
The row of HiPress is its engine in the same run. *Speedup*: the time of DDP's all-reduce, divided by the time of this
system.
"""
_PEERS = """\
The time until all gradients are averaged over four hosts with `onebit`, and how many times as long other systems took
in the same run. The last column is HiPress' time divided by the least time that the link or the codec needs.
PowerSGD loses to plain Gloo at 5 Gbit/s, because it computes too long on these cores.
"""
_SYNC = """\
*Speedup*: the time of the first peer (Gloo as DistributedDataParallel uses it), divided by the time of this system.
*Beside torch's fp16 hook*: the time of that hook, which sends float16, divided by the time of this system.
*Limit of the link*: the bytes that this system sends, divided by the rate of the link. *Limit of the codec*: the time
that the cores need for encoding and decoding alone. *Time / limit*: the time divided by the larger limit; 1 is the
best possible value. *Cores busy*: the processor time of all ranks, divided by the time and the number of cores.
Processor time beyond the limit of the codec is for copies, TCP and the runtime. In the rest of the time the cores are
idle.
"""
_ADAPTERS = """\
Each adapter runs in the environment of its framework, in turn with the others. The time starts when all gradients are
complete, and ends when all averages are complete.
"""
_TWO_PER_NODE = """\
4 hosts, links of 1gbit. `hierarchical` sends half as many bytes as `ps`, so it gains where the links are the limit. It
gains less where two cores are the limit for eight ranks: with a cheap codec, adding a neighbour's gradient costs as
much as encoding it.
"""
_ABLATION = """\
*Averaged after*: the time until every rank has all averages. *Next forward over after*: the time until the end of a
forward pass that uses the averages in the order of the layers. *Gain*: the time without the part divided by the time
with it, as the median of pairs. A part with a gain below 1 costs time. *Waits*: the time in which training waits.
"""
_ADAPTER_COST = """\
The model has many tensors of one element. There is only one rank, which sends no messages. The table has the processor
time of all threads for a step of plain training, and for a step with a distributed optimizer. The difference is the
cost of adapter and engine.
"""
_ACCURACY = """\
The task is handwritten digits. The accuracy is the share of correctly classified test images; one image is 0.17 %. The
frameworks draw initial weights and the order of images differently. A training run with differing replicas has no
result.
"""
_RESUMED = """\
A training run of [4 ranks](../benchmarks/README.md#checkpointspy) beside the same training run that goes on from a
[checkpoint](guide/checkpoints.md) with 2 new processes after a third of the steps, and with 8 after two thirds. A step
has the same sequences with any number of ranks. With seed 0 a further training leaves the residuals of the checkpoints
out.
"""
_COST = """\
The time to take codec states for a checkpoint, divided by the time to copy the tensors that it returns
(`tensor.clone()`). Both alternate in one process; a ratio is the median over the turns. Processor time is of all
threads of rank 0. *This rank's*: `codec_states(exact=True)`, and the `state_dict()` of DDP's hook. *Mean over ranks*:
`codec_states()`, in which the ranks exchange the states in float32.
"""
_LABORATORY = """\
[examples/torch/precision_lab.py](../examples/torch/precision_lab.py) trains a small network alone, and on 2 and 4 ranks
of one machine with gradients in each format. All training runs see the same images in each step. The ranks share two
cores and memory, and the machine did other work at the same time: compare accuracies and bytes, not times.
"""
_BLOCKS = """\
4 hosts, links of 1gbit. `int8` and `int4` have a scale for each block of 256 values.
"""
_POWERSGD = """\
4 hosts, links of 1gbit. All rows have rank 1, error feedback and warm start. *HiPress `powersgd`* is the engine;
*DDP's hook, `powersgd`* is HiPress' hook over the model's Gloo group; *powersgd* is torch's hook over the same group.
"""
_ERROR = """\
The tables show the squared distance of the average of compressed gradients from the exact average, divided by the
squared length of the exact average (vNMSE). *Bits*: the number of bits of an encoded element. The gradients come from
three training runs: handwritten digits, a text, and photographs without noise. Codecs with error feedback start with
zero states: later steps make up for the loss of one step. A ring encodes each sum again at every hop; `ps` encodes it
once. With `int8_shared` and `thc` no rank encodes a sum again, so the error does not depend on the topology. 8 bits
hold the sum of all ranks, so each rank has few levels; *–* stands where the sum could overflow. The column counts 8
bits for every level; the engine sends a rank's own levels [in 4](algorithms.md#sums-of-encoded-values) if they are up
to 7.
"""
_PLANNING = """\
All gradients of a model on 4 hosts. The time starts when all gradients are complete, and ends when all averages are
complete. *Best uniform*: the fastest topology with that codec for all gradients. *Plan*: a plan from a profile that
was measured just before over the same links. *Compressed*: the number of compressed gradients. *Plan / best*: the
plan's time divided by the time of the best uniform run with its codecs or none. *Prediction off*: the relative error
of the timeline model, as median and maximum over the runs with that codec, the plan and the uncompressed run.
"""
_MORE_NODES = """\
8 hosts, links of 1gbit; the profile was measured on 4 such hosts.
"""
_LINKED = """\
`int8_shared` and `powersgd` send a gradient as two linked tensors, one after the other; `int8` sends one.
All over `ps`.
"""
_REPLANNING = """\
`plan="auto"` in a training run on 2 hosts with the gradients of ResNet-50. Its backward takes 0.5 s and leaves the
processors idle. The rate of the links changes during the training run. All ranks change plans in the same step. At the
end their parameters are identical, and no residual is lost.
"""
_SPEED = """\
The planner uses the costs of the profile `sosp21-56g`, and runs on one core.
"""
_TRAINING = """\
*Over*: the library that carries the gradients. They travel as float32, with `ddp-fp16` and `ddp-bf16` as these types.
*Speedup*: the time of DDP (MXNet: of `dist-sync`), divided by the time of this system. *Beside torch's 16-bit hook*:
the same with the faster of DDP's fp16 and bf16 hooks.

4 hosts, links of 1gbit; the models compute on the CPU. Unless a row says otherwise, the batch of a rank has three
images or four texts. With a smaller batch a rank computes less but compresses the same amount, on the same two cores.
Where rows of HiPress' hook stand, these were cores of an Intel Xeon.
"""
_CHOOSING = """\
[`codec="auto"`](guide/choosing-a-codec.md#let-hipress-choose) in DistributedDataParallel over Gloo, beside fixed
codecs: a model of 9.4 M parameters that computes little, on 4 hosts. `hook-auto` may choose among no codec, `bf16`,
`int8`, `fp8_e4m3` and `int4`, and is measured when it has chosen. The steps of one system differ by a tenth here, so
systems within a tenth are equal.
"""
_TWO_RANKS = """\
Topology `auto` is `allgather` between two ranks: as many bytes as `ps`, one hop and one encoding with loss fewer. First
a step of a network with 17,226 parameters, over Gloo and in the memory of one host (`hook-int8` has topology `auto`):
such a step is mostly calls and waiting. Then averages of gradients by the engine between two hosts.
"""
_GPU_TRAINING = """\
`make bench-gpu` measures these, too: 4 hosts, one rank each, with 32 images or texts in a batch. The hosts are emulated
on a machine with 16 cores, and **all ranks share its one GPU**. `hook-CODEC` is
[HiPress' hook for DDP](guide/pytorch.md), and `hipress onebit ps` is HiPress' optimizer. DDP's gradients travel as
float32, with `ddp-fp16` and `ddp-bf16` as these types. The GPU runs one process at a time, in slices of some
milliseconds, so each kernel of a codec may wait for the passes of three other ranks. DDP's fp16 hook runs fewer
kernels. Ranks with GPUs of their own were not measured. The kernels are faster since ([decision
059](decisions/059-one-launch-for-many-tensors.md)): no GPU was at hand to measure them.
"""


def loader(folder: Path) -> Load:
    """A function that reads a result of the folder by its name."""

    def load(name: str) -> tables.Result:
        file = folder / f"{name}.json"
        return json.loads(file.read_text()) if file.exists() else None

    return load


def page(load: Load, folder: Path) -> str:
    """The whole page."""
    trained = {name.replace("-two-", ", two "): load(f"train-4-1gbit-{name}") for name in TRAINED}
    trained["resnet50, MXNet"] = load("train-4-1gbit-resnet50-mxnet")
    parts = [_HEAD, "## Training steps\n", _TRAINING]
    parts += [tables.train_table(trained), _sources(folder, *(name for name in RESULTS if name.startswith("train-")))]
    choices = {rate: load(f"choose-4-{rate}-matrices") for rate in CHOSEN_RATES}
    parts += ["## Choosing in training\n", _CHOOSING, tables.chosen_table(choices)]
    parts += [_sources(folder, *(f"choose-4-{rate}-matrices" for rate in CHOSEN_RATES))]
    parts += ["## Between two ranks\n", _TWO_RANKS, tables.train_table({"small": load("two-ranks-small")})]
    by_rate = {rate: load(f"two-ranks-{rate}-resnet50") for rate in CHOSEN_RATES}
    parts += [tables.sync_table({f"resnet50, {rate}": result for rate, result in by_rate.items()})]
    parts += [_errors_between_two(by_rate[CHOSEN_RATES[0]])]
    parts += [_sources(folder, "two-ranks-small", *(f"two-ranks-{rate}-resnet50" for rate in CHOSEN_RATES))]
    on_gpu = {f"train-gpu-4-{rate}-{model}": f"{model}, {rate}" for rate, model in GPU_TRAINED}
    parts += ["## Training steps on a GPU\n", _GPU_TRAINING]
    parts += [tables.gpu_train_table({shown: load(name) for name, shown in on_gpu.items()}), _sources(folder, *on_gpu)]
    parts += ["## Beside other systems\n", _PEERS, peers_block(load)]
    parts += ["## Averaging gradients with onebit\n", _SYNC]
    for rate in RATES:
        results = {model: load(f"sync-4-{rate}-{model}-onebit") for model in MODELS}
        parts += [f"### 4 hosts, links of {rate}\n", tables.sync_table(results), _plot(f"sync-4-{rate}-onebit", folder)]
        parts += [_sources(folder, *(f"sync-4-{rate}-{model}-onebit" for model in MODELS))]
    hooked = ("resnet50", "bert-base")
    parts += ["## Through the hook of DistributedDataParallel\n", _HOOKS]
    for rate in RATES:
        results = {model: load(f"sync-4-{rate}-{model}-hooks") for model in hooked}
        parts += [f"### 4 hosts, links of {rate}, DDP's buckets\n", tables.sync_table(results)]
        parts += [_sources(folder, *(f"sync-4-{rate}-{model}-hooks" for model in hooked))]
    for kind, title, text in (
        ("blocks", "Eight and four bits for each value", _BLOCKS),
        ("powersgd", "PowerSGD beside torch's hook", _POWERSGD),
    ):
        shown = [model for model in MODELS if f"sync-4-1gbit-{model}-{kind}" in RESULTS]
        parts += [f"## {title}\n", text]
        parts += [tables.sync_table({model: load(f"sync-4-1gbit-{model}-{kind}") for model in shown})]
        parts += [_sources(folder, *(f"sync-4-1gbit-{model}-{kind}" for model in shown))]
    parts += ["## Without compression\n", tables.none_table(_none(load))]
    parts += [_plot(f"sync-{nodes}-{rate}-none", folder) for nodes in (2, 4) for rate in RATES]
    parts += [
        _sources(folder, *(f"sync-{n}-{rate}-{model}-none" for n in (2, 4) for rate in RATES for model in MODELS))
    ]
    both = {model: load(f"sync-4x2-1gbit-{model}") for model in ("resnet50", "bert-base")}
    parts += ["## Two ranks per host\n", _TWO_PER_NODE, tables.sync_table(both)]
    parts += [_plot("sync-4x2-1gbit", folder), _sources(folder, *(f"sync-4x2-1gbit-{model}" for model in both))]
    backward = {model: load(f"sync-4-1gbit-{model}-onebit-backward") for model in MODELS}
    parts += ["## Released in backward order\n", "4 hosts, links of 1gbit. Times count from the start of backward.\n"]
    parts += [tables.sync_table(backward), _plot("sync-4-1gbit-onebit-backward", folder)]
    parts += [_sources(folder, *(f"sync-4-1gbit-{model}-onebit-backward" for model in MODELS))]
    parts += ["## The same gradients through each framework\n", _ADAPTERS]
    parts += [tables.adapters_table(load("adapters-4-1gbit-resnet50-onebit"))]
    parts += [_sources(folder, "adapters-4-1gbit-resnet50-onebit")]
    planned = {(rate, model): load(f"planning-4-{rate}-{model}") for rate in PLANNED_RATES for model in PLANNED_MODELS}
    parts += ["## Predictions and plans\n", _PLANNING, planning_table(planned)]
    parts += [_sources(folder, *(f"planning-4-{rate}-{model}" for rate, model in planned))]
    parts += ["### More hosts than were measured\n", _MORE_NODES]
    parts += [planning_table({("1gbit", "resnet50"): load("planning-8-1gbit-resnet50")})]
    parts += [_sources(folder, "planning-8-1gbit-resnet50")]
    parts += ["### Codecs of two linked tensors\n", _LINKED]
    parts += [planning_table({("1gbit", "resnet50"): load(LINKED)})]
    parts += [_sources(folder, LINKED)]
    parts += ["### Links that change in training\n", _REPLANNING, replanning_table(load(REPLANNING))]
    parts += [_sources(folder, REPLANNING)]
    parts += ["### What planning takes\n", _SPEED, speed_table(load("planning-speed"))]
    parts += [_sources(folder, "planning-speed")]
    parts += ["## What each part gains\n", _ABLATION]
    for name in RESULTS:
        if name.startswith("ablation-"):
            parts += [
                f"### {name.removeprefix('ablation-')}\n",
                tables.ablation_table(load(name)),
                _sources(folder, name),
            ]
    parts += [_plot("ablation", folder)]
    parts += ["## Synchronising seldom\n", diloco_table(load(SELDOM)), _sources(folder, SELDOM)]
    parts += ["## All of FSDP2's traffic\n", fsdp_table({hosts: load(name) for hosts, name in FSDP.items()})]
    parts += [_sources(folder, *FSDP.values())]
    parts += ["## Many calls over a long link\n"]
    parts += [calls_table({what: load(name) for what, name in CALLS.items()}), _sources(folder, *CALLS.values())]
    parts += ["## Codecs\n", "The tensor has 64 MB; the codec uses one thread.\n", tables.codec_table(load("codec"))]
    parts += [_sources(folder, "codec"), "## Codecs on a GPU\n", _GPU, tables.gpu_codec_table(load("codec_gpu"))]
    parts += [_sources(folder, "codec_gpu"), "## Error of the average\n", _ERROR, tables.error_tables(load("error"))]
    parts += [_sources(folder, "error"), "## On this machine's loopback\n"]
    parts += ["The ranks of HiPress read each other's memory; Gloo uses TCP.\n"]
    loopback = {(str(n), size): load(f"sync-loopback-{n}x{size}") for n in (4, 2) for size in ("100M", "1M")}
    parts += [tables.loopback_table(loopback), _sources(folder, *(f"sync-loopback-{n}x{size}" for n, size in loopback))]
    parts += ["## What an adapter costs\n", _ADAPTER_COST, tables.adapter_table(load("adapter-cost"))]
    parts += [_sources(folder, "adapter-cost"), "## Accuracy in each framework\n", _ACCURACY]
    parts += [tables.accuracy_table(load("accuracy")), _sources(folder, "accuracy")]
    parts += ["## Resumed with another number of ranks\n", _RESUMED]
    parts += [resumed_table({name: load(name) for name in RESUMED}), _sources(folder, *RESUMED)]
    parts += ["## Cost of codec states\n", _COST, cost_table(load("checkpoint-cost"))]
    parts += [_sources(folder, "checkpoint-cost"), "## The laboratory exercise\n", _LABORATORY]
    parts += [tables.precision_table(load("precision-lab")), _sources(folder, "precision-lab")]
    return "\n".join(part for part in parts if part)


_NAMES = {"resnet50": "ResNet-50", "bert-base": "BERT-base"}


def _errors_between_two(result: tables.Result) -> str:
    """How far averages are from exact ones, by codec and topology."""
    if not result:
        return ""
    errors = {(row["codec"], row["topology"]): row["error"] for row in result}
    said = [f"`{codec}` {errors[codec, 'allgather']:.2g} and {errors[codec, 'ps']:.2g}" for codec in ("int8", "onebit")]
    return f"The relative errors of an average with `allgather` and with `ps`: {', '.join(said)}.\n"


def _link(rate: str) -> str:
    return rate.replace("gbit", " Gbit/s")


def readme_block(load: Load) -> str:
    """Whole training steps, then averages alone, then ranks that share memory."""
    steps = {}
    for rate, model in GPU_TRAINED:
        result = load(f"train-gpu-4-{rate}-{model}")
        gpu = result[0]["device"].removeprefix("NVIDIA ").split(" ")[0] if result else "GPU"
        steps[f"{_NAMES[model]} on one {gpu}, {_link(rate)}"] = result
    for model, shown in _NAMES.items():
        steps[f"{shown} on two CPU cores, 1 Gbit/s"] = load(f"train-4-1gbit-{model}")
    averages = {
        f"{shown}, {_link(rate)}": load(f"sync-4-{rate}-{model}-hooks")
        for model, shown in _NAMES.items()
        for rate in RATES
    }
    return f"{steps_table(steps)}\n{averages_table(averages)}{_shared_memory(load)}"


def _shared_memory(load: Load) -> str:
    """A sentence about ranks of one host; empty if they were not measured."""
    rows = {row["system"]: row for row in load("sync-loopback-4x100M") or []}
    found = [rows[f"hipress {codec}"] for codec in ("none", "fp16", "onebit") if f"hipress {codec}" in rows]
    shown = ", ".join(f"`{row['codec']}` {tables.seconds(row['time_s'])}" for row in found)
    return f"\nFour ranks of one host, which exchange 100 MB through memory: {shown}.\n" if found else ""


def peers_block(load: Load) -> str:
    """The table of onebit, and a sentence about averaging without compression."""
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
            speedups = [tables.gain(ours, None if peer is None else peer / time_s, 1) for peer in peers]
            lines.append((model, rate, tables.seconds(time_s), *speedups, tables.times(ours.get("limit_ratio"))))
    if not measured:
        return f"{tables.NOT_MEASURED.capitalize()} yet.\n"
    peers_heads = "Gloo, float32: | Gloo, fp16 hook: | PowerSGD, float32: | Horovod, float32:"
    heads = f"Gradients of | Links | HiPress `onebit`: | {peers_heads} | Time / limit:"
    return tables.table(heads, lines) + "\n" + _without(load)


def guide_block(load: Load) -> str:
    """The table of plans for ResNet-50."""
    return decision_table({rate: load(f"planning-4-{rate}-resnet50") for rate in PLANNED_RATES})


def changing_block(load: Load) -> str:
    """The table of the training run in which the links change."""
    return replanning_table(load(REPLANNING))


def _without(load: Load) -> str:
    """A sentence about averaging without compression."""
    ratios = [
        float(ours["time_s"]) / gloo
        for result in _none(load).values()
        if (ours := tables.fastest(result, "none")) and (gloo := tables.time_of(result, "gloo-fp32"))
    ]
    if not ratios:
        return "Without compression (`none`): not measured.\n"
    return (
        f"Without compression (`none`) HiPress takes {min(ratios):.2f} to {max(ratios):.2f} times as long as Gloo, in "
        f"{len(ratios)} of {len(_none(load))} settings of 2 and 4 hosts.\n"
    )


def _none(load: Load) -> dict[tuple[str, str, str], tables.Result]:
    return {
        (nodes, rate, model): load(f"sync-{nodes}-{rate}-{model}-none")
        for nodes in ("2", "4")
        for rate in RATES
        for model in MODELS
    }


def _sources(folder: Path, *names: str) -> str:
    """Links to the result files that exist."""
    files = [f"[{name}](../benchmarks/results/{name}.json)" for name in names if (folder / f"{name}.json").exists()]
    return f"Results: {', '.join(files)}.\n" if files else ""


def _plot(name: str, folder: Path) -> str:
    """The plot; empty if it does not exist."""
    assert name in PLOTS
    return f"![{name}](../benchmarks/results/{name}.svg)\n" if (folder / f"{name}.svg").exists() else ""


def with_blocks(file: Path, *blocks: str) -> str:
    """The file's text with the blocks in their places. Raises SystemExit if the file lacks the places."""
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
    """Writes or compares the pages. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Write the benchmarks' numbers into the pages that show them.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a page is out of step")
    check = parser.parse_args().check
    load = loader(RESULTS_FOLDER)
    pages = {
        PAGE: page(load, RESULTS_FOLDER),
        CONVERGENCE: convergence_page(load("convergence")),
        EVIDENCE: evidence_text(load("convergence") or []),
        README: with_blocks(README, readme_block(load)),
        GUIDE: with_blocks(GUIDE, guide_block(load), changing_block(load)),
        STREAMS: with_blocks(STREAMS, tables.weight_stream_table(load("weight-stream"))),
        WATCHING: with_blocks(WATCHING, harm_table(load("harm")), cost_sentence(load("harm-cost"))),
        CHOOSING: with_blocks(CHOOSING, optimizers_table(load("optimizers")), optimizers_table(load(OTHER_TEXT))),
        ADAM: with_blocks(
            ADAM, adam_table([load(f"adam-seed{seed}") for seed in ADAM_SEEDS]), own_table(load(ADAM_OWN))
        ),
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

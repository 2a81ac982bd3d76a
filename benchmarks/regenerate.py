# SPDX-License-Identifier: Apache-2.0
"""Measures all results in results/ again, one benchmark after the other. `make bench` runs it.

    python benchmarks/regenerate.py [NAME...]      only results and plots whose file names contain one of these
    python benchmarks/regenerate.py --minutes 60   the most important results first; starts nothing after an hour
    python benchmarks/regenerate.py --draw         measures nothing; writes plots and pages of the existing results
    python benchmarks/regenerate.py --gpu          the results of a GPU instead; `make bench-gpu` runs it

A new benchmark adds its command lines to `RESULTS` or `GPU_RESULTS`, and its plots to `PLOTS`. On a machine that cannot
have emulated clusters, the program skips the benchmarks that need one, and prints a message.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.cluster import EXIT_UNAVAILABLE
from benchmarks.models import MODELS

HERE = Path(__file__).parent
RESULTS_FOLDER = HERE / "results"
LOOPBACK = ("sync.py", "--codec", "none,fp16,onebit", "--peer", "gloo-fp32,gloo-fp16")
RATES = ("1gbit", "5gbit")
#: Rates of links for plans; none: unlimited.
PLANNED_RATES = ("1gbit", "5gbit", "none")
#: Rates of links at which a training chooses its codec.
CHOSEN_RATES = ("1gbit", "10gbit")
PLANNED_MODELS = ("resnet50", "bert-base", "vgg19")
PEERS = "gloo-fp32,gloo-fp16,powersgd,horovod"
#: The peers of large models. With PowerSGD, four ranks need 20 GB for VGG-19 (sync/memory.py), without it 13 GB: its
#: residuals are as large as the model, and it holds three copies of the largest bucket, fc6's 411 MB.
PEERS_OF = {"vgg19": "gloo-fp32,gloo-fp16,horovod"}
#: Arguments of train.py by name. With a smaller batch a rank computes less, but compresses the same amount.
TRAINED = {
    "resnet50": ("resnet50",),
    "resnet50-two-images": ("resnet50", "--batch-size", "2"),
    "bert-base": ("bert-base",),
    "bert-base-two-texts": ("bert-base", "--batch-size", "2"),
}


def _sync(nodes: int, rate: str, model: str, *more: str) -> tuple[str, ...]:
    return ("sync.py", "--nodes", str(nodes), "--rate", rate, "--model", model, *more)


def _best(codec: str, peers: str) -> tuple[str, ...]:
    """Arguments that try all topologies and measure the fastest."""
    return ("--topology", "best", "--codec", codec, "--peer", peers)


def _onebit(rate: str, *models: str) -> dict[str, tuple[str, ...]]:
    return {
        f"sync-4-{rate}-{model}-onebit": _sync(4, rate, model, *_best("onebit", PEERS_OF.get(model, PEERS)))
        for model in models
    }


def _none(nodes: int, *models: str) -> dict[str, tuple[str, ...]]:
    """Commands that measure synchronisation without compression."""
    return {
        f"sync-{nodes}-{rate}-{model}-none": _sync(nodes, rate, model, *_best("none", "gloo-fp32"))
        for rate in RATES
        for model in models
    }


def _ablation(rate: str, release: str, *models: str) -> dict[str, tuple[str, ...]]:
    return {
        f"ablation-4-{rate}-{model}-{release}": (
            *("ablation.py", "--nodes", "4", "--rate", rate, "--model", model, "--release", release),
            *("--seconds", "120"),
        )
        for model in models
    }


def _schedules(rate: str, port_limit: int, *codecs: str) -> dict[str, tuple[str, ...]]:
    """Commands that measure the schedules of links where they were meant to help: eight hosts send to one at a time,
    over a switch whose queues overflow."""
    return {
        f"ablation-8-{rate}-resnet50-schedules-{codec}": (
            *("ablation.py", "--nodes", "8", "--rate", rate, "--port-limit", str(port_limit), "--schedules"),
            *("--model", "resnet50", "--release", "all", "--codec", codec, "--seconds", "240"),
        )
        for codec in codecs
    }


#: The seeds of longer trainings with AdamW.
ADAM_SEEDS = (0, 1, 2)
OTHER_TEXT = "optimizers-licences"
#: The optimizers that belong to codecs, in a training of the same length.
ADAM_OWN = "adam-own-seed0"
#: Arguments of checkpoints.py by name.
CHECKPOINTS = {"checkpoints": ("--system", "onebit")}

#: Script and arguments by file name without suffix. The names of cluster results have the nodes, the ranks per node if
#: there are several, the rate, the model and the codec. The most important results come first; all together take hours.
RESULTS: dict[str, tuple[str, ...]] = {
    **_onebit("1gbit", "vgg19", "resnet50", "bert-base"),
    **_onebit("5gbit", "vgg19", "resnet50", "bert-base"),
    # HiPress' hook over the model's own Gloo group, beside DDP's all-reduce and DDP's hooks. At 5 Gbit/s `hipress plan`
    # chooses terngrad for these gradients.
    **{
        f"sync-4-{rate}-{model}-hooks": _sync(
            *(4, rate, model, "--topology", "ps", "--codec", "onebit"),
            *("--peer", "gloo-fp32,gloo-fp16,powersgd,hook-onebit,hook-int8,hook-terngrad"),
        )
        for rate in RATES
        for model in ("resnet50", "bert-base")
    },
    # PowerSGD of the engine and of HiPress' hook, beside torch's hook.
    **{
        f"sync-4-1gbit-{model}-powersgd": _sync(
            *(4, "1gbit", model, "--topology", "ps", "--codec", "powersgd"),
            *("--peer", f"gloo-fp32,{more}powersgd,hook-powersgd"),
        )
        # Another peer and VGG-19's gradients would exceed the memory of a small machine.
        for model, more in (("vgg19", ""), ("resnet50", "gloo-fp16,"), ("bert-base", "gloo-fp16,"))
    },
    # The codecs that the guides recommend first, beside torch's own averaging.
    **{
        f"sync-4-1gbit-{model}-blocks": _sync(
            *(4, "1gbit", model, "--topology", "ps", "--codec", "int8,int4,dynamiq", "--peer", "gloo-fp32,gloo-fp16")
        )
        for model in ("vgg19", "bert-base")
    },
    **_none(4, "vgg19", "resnet50", "bert-base"),
    **_none(2, "vgg19", "resnet50", "bert-base"),
    **{
        f"sync-4x2-1gbit-{model}": (
            *_sync(4, "1gbit", model, "--ranks-per-node", "2", "--codec", codecs),
            *("--topology", "hierarchical,ps", "--peer", "gloo-fp32,gloo-fp16"),
        )
        # Eight copies of larger models, or of more codecs' states, exceed the memory of a small machine.
        for model, codecs in (("resnet50", "none,onebit,terngrad,dgc"), ("bert-base", "none,onebit"))
    },
    **_ablation("1gbit", "all", "resnet50", "bert-base"),
    **_ablation("1gbit", "backward", "vgg19"),
    **{
        f"train-4-1gbit-{name}": (
            *("train.py", "--nodes", "4", "--rate", "1gbit", "--model", *trained, "--steps", "7"),
            *("--codec", "onebit", "--peer", "ddp,ddp-fp16,hook-int8,hook-int4,hook-onebit,horovod"),
        )
        for name, trained in TRAINED.items()
    },
    **{
        f"choose-4-{rate}-matrices": (
            *("train.py", "--nodes", "4", "--rate", rate, "--model", "matrices", "--codec", "int8"),
            *("--peer", "ddp,ddp-fp16,hook-int8,hook-int4,hook-auto"),
        )
        for rate in CHOSEN_RATES
    },
    # Topology "auto" between two ranks, beside ps.
    "two-ranks-small": (
        *("train.py", "--world", "2", "--model", "small", "--codec", "int8", "--topology", "auto", "--steps", "2000"),
        *("--peer", "ddp,hook-int8,hook-int8-ps"),
    ),
    **{
        f"two-ranks-{rate}-resnet50": _sync(
            *(2, rate, "resnet50", "--topology", "ps,allgather", "--codec", "none,int8,onebit", "--peer", "gloo-fp32"),
        )
        for rate in CHOSEN_RATES
    },
    "train-4-1gbit-resnet50-mxnet": (
        *("train.py", "--framework", "mxnet", "--nodes", "4", "--rate", "1gbit", "--model", "resnet50"),
        *("--steps", "7", "--codec", "onebit", "--peer", "dist-sync,dist-sync-2bit,horovod"),
    ),
    "adapters-4-1gbit-resnet50-onebit": (
        *("adapters.py", "--nodes", "4", "--rate", "1gbit", "--model", "resnet50", "--codec", "onebit"),
        # The compared times differ by a few percent only.
        *("--repeat", "100"),
    ),
    "diloco-4-100mbit": ("diloco.py", "--nodes", "4", "--rate", "100mbit", "--round-trip", "50"),
    # All of FSDP2's traffic, as it is and in block int8: the time of steps, then the loss after many steps.
    **{f"fsdp-{nodes}-1gbit": ("fsdp", "--nodes", str(nodes), "--rate", "1gbit") for nodes in (2, 4)},
    **{
        f"fsdp-loss-{text}-{seed}": (
            *("fsdp", "--world", "2", "--steps", "300", "--sequences", "2", "--text", text),
            *("--system", "fsdp,fsdp-int8", "--seed", str(seed)),
        )
        for text in ("help", "licences")
        for seed in range(3)
    },
    "members-4": ("members", "--seeds", "3", "--steps", "800"),
    "sets-4": ("sets",),
    "harm": ("harm",),
    "harm-cost": ("harm/cost.py",),
    "start": ("start", "--ranks", "16,64,200", "--repeats", "3"),
    "calls-2-1gbit-50ms-small": ("calls.py", "--nodes", "2", "--round-trip", "50", "--elements", "256"),
    "calls-2-1gbit-50ms-resnet50": ("calls.py", "--nodes", "2", "--round-trip", "50", "--model", "resnet50"),
    **_onebit("1gbit", "gpt2"),
    **_onebit("5gbit", "gpt2"),
    **_none(4, "gpt2"),
    **_none(2, "gpt2"),
    "codec": ("codec.py", "--size", "64M"),
    "error": ("error.py",),
    "weight-stream": ("weight_stream.py",),
    "adapter-cost": ("adapter_cost.py",),
    "accuracy": ("accuracy.py",),
    # It goes on where it ended the last time.
    "convergence": ("convergence.py", "--minutes", "60"),
    "optimizers": ("optimizers.py",),
    # Another text and more steps, for AdamW only: a codec that suits one text may harm the training with another.
    OTHER_TEXT: (
        *("optimizers.py", "--text", "licences", "--optimizer", "adamw", "--steps", "300", "--codec"),
        "none,int8,int4,terngrad(bitwidth=4),terngrad,onebit(error_feedback=false),OneBitAdam",
    ),
    **{
        f"adam-seed{seed}": (
            *("optimizers.py", "--codec", "onebit,OneBitAdam", "--optimizer", "adamw"),
            *("--steps", "600", "--seed", str(seed)),
        )
        for seed in ADAM_SEEDS
    },
    ADAM_OWN: (
        *("optimizers.py", "--codec", "OneBitAdam,ZeroOneAdam,LAMB,OneBitLamb,DeMo"),
        *("--optimizer", "adamw,adamw-fast", "--steps", "600", "--seed", "0"),
    ),
    **{name: ("checkpoints.py", *arguments) for name, arguments in CHECKPOINTS.items()},
    "checkpoint-cost": ("checkpoint_cost.py",),
    "precision-lab": ("precision_lab.py",),
    **{
        f"sync-loopback-{world}x{size}": (*LOOPBACK, "--world", str(world), "--size", size)
        for size in ("100M", "1M")
        for world in (4, 2)
    },
    **{
        f"sync-4-1gbit-{model}-onebit-backward": _sync(
            4, "1gbit", model, "--release", "backward", *_best("onebit", "gloo-fp32,gloo-fp16")
        )
        for model in MODELS
    },
    **_ablation("5gbit", "all", "resnet50"),
    **_schedules("1gbit", 128 << 10, "none", "onebit"),
    **{
        f"planning-4-{rate}-{model}": ("planning.py", "--nodes", "4", "--rate", rate, "--model", model)
        for model in PLANNED_MODELS
        for rate in PLANNED_RATES
    },
    # More nodes than in the profile.
    "planning-8-1gbit-resnet50": (
        *("planning.py", "--nodes", "8", "--profile-nodes", "4", "--rate", "1gbit", "--model", "resnet50"),
        *("--codec", "onebit,tbq,terngrad"),
    ),
    # Codecs that send a gradient as two linked tensors, beside one of a single tensor.
    "planning-linked-4-1gbit-resnet50": (
        *("planning.py", "--nodes", "4", "--rate", "1gbit", "--model", "resnet50", "--topology", "ps"),
        *("--codec", "int8_shared,powersgd,int8", "--turns", "5"),
    ),
    "replanning-2-5gbit-1gbit-resnet50": (
        *("replanning.py", "--nodes", "2", "--rate", "5gbit", "--then", "1gbit", "--model", "resnet50"),
        *("--codec", "onebit"),
    ),
    "planning-speed": ("planning_speed.py",),
}

#: Models and rates of trainings on a GPU.
GPU_TRAINED = tuple((rate, model) for model in ("resnet50", "bert-base") for rate in ("1gbit", "10gbit"))
#: The same for the benchmarks that need a GPU.
GPU_RESULTS: dict[str, tuple[str, ...]] = {
    "codec_gpu": ("codec_gpu.py",),
    **{
        f"train-gpu-4-{rate}-{model}": (
            *("train.py", "--device", "cuda", "--nodes", "4", "--rate", rate, "--model", model, "--steps", "7"),
            *("--codec", "onebit", "--peer", "ddp,ddp-fp16,ddp-bf16,hook-int8,hook-int4,hook-onebit"),
        )
        for rate, model in GPU_TRAINED
    },
}

#: The script that draws a plot and the results in it, by file name without suffix.
PLOTS: dict[str, tuple[str, tuple[str, ...]]] = {
    **{
        f"sync-{setting}": ("sync/plot.py", tuple(name.format(model=model) for model in MODELS))
        for setting, name in (
            *((f"4-{rate}-onebit", f"sync-4-{rate}-{{model}}-onebit") for rate in RATES),
            ("4-1gbit-onebit-backward", "sync-4-1gbit-{model}-onebit-backward"),
            *((f"{nodes}-{rate}-none", f"sync-{nodes}-{rate}-{{model}}-none") for nodes in (2, 4) for rate in RATES),
        )
    },
    "sync-4x2-1gbit": ("sync/plot.py", ("sync-4x2-1gbit-resnet50", "sync-4x2-1gbit-bert-base")),
    "ablation": ("ablation/plot.py", tuple(name for name in RESULTS if name.startswith("ablation-4-"))),
}


def _measure(name: str, script: str, *arguments: str) -> bool:
    # The load shows whether other work disturbed the measurement.
    print(f"\n{name} (load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores)", flush=True)
    command = [sys.executable, str(HERE / script), *arguments, "--json", str(RESULTS_FOLDER / f"{name}.json")]
    start = time.monotonic()
    code = subprocess.run(command).returncode
    print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
    if code == EXIT_UNAVAILABLE:
        print(f"{name}: left out, its committed result stays", file=sys.stderr, flush=True)
    elif code != 0:
        print(f"{name}: FAILED with exit code {code}", file=sys.stderr, flush=True)
    return code in (0, EXIT_UNAVAILABLE)


def _draw(name: str) -> bool:
    """Draws a plot of the existing results; a model without a result has no bars."""
    script, results = PLOTS[name]
    files = [file for file in (RESULTS_FOLDER / f"{result}.json" for result in results) if file.exists()]
    if not files:
        print(f"{name}.svg: left out, nothing of it was measured", file=sys.stderr, flush=True)
        return True
    output = RESULTS_FOLDER / f"{name}.svg"
    command = [sys.executable, str(HERE / script), *map(str, files), "--output", str(output)]
    return subprocess.run(command).returncode == 0


def _update_pages() -> None:
    """Writes the results into README, docs/benchmarks.md and the guides."""
    subprocess.run([sys.executable, str(HERE.parent / "docs" / "update_benchmarks.py")], check=True)


def main() -> int:
    """Runs all selected benchmarks and plots, even if some fail. Returns the number of failures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a file name (default: all)")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="start no benchmark after this time (default: no limit)"
    )
    parser.add_argument(
        "--draw", action="store_true", help="measure nothing; write plots and pages of the existing results"
    )
    parser.add_argument("--gpu", action="store_true", help="measure what needs a GPU, and nothing else")
    given = parser.parse_args()
    parts = given.names or [""]
    known, drawn = (GPU_RESULTS, {}) if given.gpu else (RESULTS, PLOTS)
    results = [] if given.draw else [name for name in known if any(part in name for part in parts)]
    # A plot is drawn again if one of its results is new.
    plots = [
        name
        for name in drawn
        if any(part in name for part in parts) or any(result in results for result in PLOTS[name][1])
    ]
    if not results and not plots:
        print(f"nothing is called {' or '.join(parts)}; there are {', '.join([*known, *drawn])}", file=sys.stderr)
        return 2
    start = time.monotonic()
    failed = []
    for index, name in enumerate(results):
        if time.monotonic() - start > 60 * given.minutes:
            print(f"the time is over: {', '.join(results[index:])} left out", file=sys.stderr, flush=True)
            break
        if not _measure(name, *known[name]):
            failed.append(name)
    failed += [name for name in plots if not _draw(name)]
    _update_pages()
    print(
        f"\n{len(results)} results and {len(plots)} plots in {(time.monotonic() - start) / 60:.0f} minutes", flush=True
    )
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Measures everything in results/ again, one benchmark after the other: what `make bench` runs.

    python benchmarks/regenerate.py [NAME...]      only results and plots whose file names contain one of these

A new benchmark adds its command lines to `RESULTS`, and a plot of results to `PLOTS`. What needs an emulated cluster is
left out, and said to be, where none can be made.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cluster import EXIT_UNAVAILABLE
from models import MODELS

HERE = Path(__file__).parent
RESULTS_FOLDER = HERE / "results"
LOOPBACK = ("sync.py", "--codec", "none,fp16,onebit", "--peer", "gloo-fp32,gloo-fp16")
#: Emulated clusters; "best" tries the topologies and measures the fastest.
CLUSTER = ("sync.py", "--topology", "best")
ONEBIT = ("--codec", "onebit", "--peer")
PEERS = "gloo-fp32,gloo-fp16,powersgd,horovod"
#: With PowerSGD, four ranks need 20 GB for VGG-19 (sync_memory.py): its residuals are as large as the model, and it
#: holds three copies of a bucket, of which one is fc6's 411 MB. Without it 13 GB.
PEERS_OF = {"vgg19": "gloo-fp32,gloo-fp16,horovod"}
#: What synchronising costs when no bytes are saved.
RAW = ("--codec", "none", "--peer", "gloo-fp32")
RATES = ("1gbit", "5gbit")

#: File name without ending: script and arguments. Of clusters: nodes, ranks per node if several, rate, model, codec.
RESULTS: dict[str, tuple[str, ...]] = {
    "codec": ("codec.py", "--size", "64M"),
    **{
        f"sync-loopback-{world}x{size}": (*LOOPBACK, "--world", str(world), "--size", size)
        for size in ("100M", "1M")
        for world in (4, 2)
    },
    **{
        f"sync-4-{rate}-{model}-onebit": (
            *(*CLUSTER, "--nodes", "4", "--rate", rate, "--model", model),
            *(*ONEBIT, PEERS_OF.get(model, PEERS)),
        )
        for rate in RATES
        for model in MODELS
    },
    **{
        f"sync-4-1gbit-{model}-onebit-backward": (
            *(*CLUSTER, "--nodes", "4", "--rate", "1gbit", "--model", model, "--release", "backward"),
            *("--codec", "onebit", "--peer", "gloo-fp32,gloo-fp16"),
        )
        for model in MODELS
    },
    **{
        f"sync-{nodes}-{rate}-{model}-none": (*CLUSTER, "--nodes", str(nodes), "--rate", rate, "--model", model, *RAW)
        for nodes in (2, 4)
        for rate in RATES
        for model in MODELS
    },
    **{
        f"sync-4x2-1gbit-{model}-onebit": (
            *(*CLUSTER, "--nodes", "4", "--ranks-per-node", "2", "--rate", "1gbit", "--model", model),
            *("--codec", "onebit", "--peer", "gloo-fp32"),
        )
        # The others' eight copies do not fit into the memory of a small machine.
        for model in ("resnet50", "bert-base")
    },
}

#: File name without ending: the results that it shows.
PLOTS: dict[str, tuple[str, ...]] = {
    f"sync-{setting}": tuple(name.format(model=model) for model in MODELS)
    for setting, name in (
        *((f"4-{rate}-onebit", f"sync-4-{rate}-{{model}}-onebit") for rate in RATES),
        ("4-1gbit-onebit-backward", "sync-4-1gbit-{model}-onebit-backward"),
        *((f"{nodes}-{rate}-none", f"sync-{nodes}-{rate}-{{model}}-none") for nodes in (2, 4) for rate in RATES),
    )
}


def _measure(name: str) -> bool:
    script, *arguments = RESULTS[name]
    # Figures taken beside other work say more about that work.
    print(f"\n{name} (load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores)", flush=True)
    command = [sys.executable, str(HERE / script), *arguments, "--json", str(RESULTS_FOLDER / f"{name}.json")]
    code = subprocess.run(command).returncode
    if code == EXIT_UNAVAILABLE:
        print(f"{name}: left out, its committed result stays", file=sys.stderr, flush=True)
    return code in (0, EXIT_UNAVAILABLE)


def _draw(name: str) -> bool:
    files = [RESULTS_FOLDER / f"{result}.json" for result in PLOTS[name]]
    missing = [file.name for file in files if not file.exists()]
    if missing:
        print(f"{name}.svg: left out, there is no {' and no '.join(missing)}", file=sys.stderr, flush=True)
        return True
    output = RESULTS_FOLDER / f"{name}.svg"
    command = [sys.executable, str(HERE / "sync_plot.py"), *map(str, files), "--output", str(output)]
    return subprocess.run(command).returncode == 0


def main() -> int:
    """Run what is asked for; the number of benchmarks and plots that failed."""
    parts = sys.argv[1:] or [""]
    results = [name for name in RESULTS if any(part in name for part in parts)]
    # A plot is as old as the newest of its results.
    plots = [
        name
        for name in PLOTS
        if any(part in name for part in parts) or any(result in results for result in PLOTS[name])
    ]
    if not results and not plots:
        print(f"nothing is called {' or '.join(parts)}; there are {', '.join([*RESULTS, *PLOTS])}", file=sys.stderr)
        return 2
    failed = sum(not _measure(name) for name in results)
    return failed + sum(not _draw(name) for name in plots)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""`make demo`: the same training with every codec, with its accuracy, its bytes and its step time.

The program starts four processes with `hipress run`, as a user does. They train as digits.py does, once with each
codec. The import of torch takes as long as a training, so the same processes run all trainings. The program writes
digits.png and digits.json. It fails if a training fails, or if a codec costs more than 1.5 points of accuracy.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

CODECS = ("none", "fp16", "onebit", "tbq", "terngrad", "dgc", "graddrop")
#: The accuracy that a codec may cost, as a fraction of the test images.
TOLERANCE = 0.015

Results = dict[str, Any]


def train_all(ranks: int, extra: list[str]) -> list[Results]:
    """Runs the trainings with all codecs, which print to this program's output. Exits if one fails."""
    with tempfile.TemporaryDirectory() as directory:
        launcher = [sys.executable, "-m", "hipress.cli", "run", "--no-prefix", "-np", str(ranks)]
        training = [sys.executable, __file__, "--as-rank", directory, "--", *extra]
        code = subprocess.call(launcher + training)
        if code != 0:
            raise SystemExit(f"demo: the training failed with exit code {code}")
        return [json.loads((Path(directory) / f"{codec}.json").read_text()) for codec in CODECS]


def be_a_rank(directory: Path, extra: list[str]) -> None:
    """Runs one process of the trainings, one codec after the other."""
    import digits

    for codec in CODECS:
        if os.environ["HIPRESS_RANK"] == "0":
            print(f"\ncodec {codec}: {os.environ['HIPRESS_SIZE']} processes train on handwritten digits", flush=True)
        digits.main(["--codec", codec, "--json", str(directory / f"{codec}.json"), *extra])


def make_table(runs: list[Results]) -> Table:
    plain = runs[0]
    table = Table(title=f"{plain['world_size']} processes, {len(plain['loss'])} steps; per process")
    table.add_column("codec", no_wrap=True)
    for heading in ("accuracy", "sent/step", "of none", "last epoch", "a step", "of none"):
        table.add_column(heading, justify="right", no_wrap=True)
    for run in runs:
        table.add_row(
            run["codec"],
            f"{run['test_accuracy']:.2%}",
            f"{run['bytes_per_step_and_rank'] / 1e3:,.1f} kB",
            f"{run['bytes_per_step_and_rank'] / plain['bytes_per_step_and_rank']:.1%}",
            f"{run['bytes_by_epoch'][-1] / plain['bytes_by_epoch'][-1]:.1%}",
            f"{run['median_step_seconds'] * 1e3:.1f} ms",
            f"{run['median_step_seconds'] / plain['median_step_seconds']:.2f}×",
        )
    return table


def smooth(values: list[float], weight: float = 0.9) -> list[float]:
    """The running mean of a loss, because the loss itself jumps from batch to batch."""
    smoothed, mean = [], values[0]
    for value in values:
        mean = weight * mean + (1 - weight) * value
        smoothed.append(mean)
    return smoothed


def megabytes_sent(run: Results) -> list[float]:
    """The megabytes sent up to each step. Epochs differ if a codec has a warm-up."""
    steps = len(run["loss"]) // len(run["bytes_by_epoch"])
    per_step = [sent / steps / 1e6 for sent in run["bytes_by_epoch"] for _ in range(steps)]
    return list(itertools.accumulate(per_step))


def plot_losses(runs: list[Results], file: Path) -> None:
    """Draws the loss curves twice: over steps, where they should end at the same loss, and over sent bytes."""
    import matplotlib

    matplotlib.use("Agg")  # needs no display
    from matplotlib import pyplot

    figure, (by_step, by_bytes) = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for index, run in enumerate(runs):
        loss = smooth(run["loss"])
        # The curve of `none` is black. Line styles tell curves apart where they cover each other.
        look = {"color": "black" if index == 0 else f"C{index - 1}", "linestyle": ("-", "--", "-.")[index % 3]}
        by_step.plot(loss, linewidth=1.2, **look)
        by_bytes.plot(megabytes_sent(run), loss, label=run["codec"], linewidth=1.2, **look)
    by_step.set(xlabel="step", ylabel="training loss (running mean)", yscale="log")
    by_bytes.set(xlabel="megabytes sent per rank", xscale="log")
    for axes in (by_step, by_bytes):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right center", frameon=False)
    figure.savefig(file, dpi=150)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=Path("demo"), help="directory of digits.png and digits.json")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--as-rank", type=Path, metavar="DIRECTORY", help=argparse.SUPPRESS)
    parser.add_argument("training", nargs="*", help="options for digits.py, after --")
    arguments = parser.parse_args()
    if arguments.as_rank is not None:
        be_a_rank(arguments.as_rank, arguments.training)
        return 0
    console = Console()

    load = os.getloadavg()[0]
    runs = train_all(arguments.ranks, arguments.training)

    arguments.output.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    (arguments.output / "digits.json").write_text(
        json.dumps({"cores": cores, "load_before": load, "runs": runs}) + "\n"
    )
    plot_losses(runs, arguments.output / "digits.png")
    console.print()
    console.print(make_table(runs))
    console.print(
        f"The ranks share {cores} cores and exchange bytes through memory: these step times contain the cost of "
        "compression, but not its gain on a network."
    )
    console.print(f"Loss curves: {arguments.output / 'digits.png'}")

    worse = [run["codec"] for run in runs if run["test_accuracy"] < runs[0]["test_accuracy"] - TOLERANCE]
    if worse:
        console.print(f"[red]More than 1.5 points of accuracy lost with: {', '.join(worse)}[/red]")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())

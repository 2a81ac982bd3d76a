# SPDX-License-Identifier: Apache-2.0
"""Measures ResNet-50 on random images of ImageNet's shape, synchronised in each of HiPress' ways.

    torchrun --nproc-per-node 2 resnet50.py --ways optimizer ddp fsdp diloco --codec onebit

The labels are random, so the loss has no meaning: pytorch_imagenet.py trains on real images.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
from devices import add_device
from torch.nn import functional
from ways_in import WAYS, synchronised

import hipress.torch as hp

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the benchmarks have the model
from benchmarks.models.resnet50 import Resnet50


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["optimizer"], help="one training for each")
    parser.add_argument("--codec", default="onebit")
    parser.add_argument("--steps", type=int, default=10, help="steps that are measured, after one that is not")
    parser.add_argument("--batch", type=int, default=4, help="images of each rank")
    parser.add_argument("--image-size", type=int, default=224, help="pixels")
    add_device(parser)
    return parser.parse_args()


def measure(way: str, arguments: argparse.Namespace) -> None:
    torch.manual_seed(0)
    with synchronised(way, Resnet50(), lambda one: torch.optim.SGD(one.parameters(), lr=0.01), arguments) as training:
        device = training.device
        torch.set_num_threads(max(1, torch.get_num_threads() // hp.local_size()))
        images = torch.randn(arguments.batch, 3, arguments.image_size, arguments.image_size, device=device)
        labels = torch.randint(1000, (arguments.batch,), device=device)
        seconds: list[float] = []
        sent = 0
        for step in range(1 + arguments.steps):
            if step == 1:  # the first step allocates memory and connects
                sent = training.sent_bytes()
            started = time.perf_counter()
            training.optimizer.zero_grad()
            functional.cross_entropy(training.model(images), labels).backward()
            training.optimizer.step()
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - started)
        median = statistics.median(seconds[1:])
        megabytes = (training.sent_bytes() - sent) / arguments.steps / 1e6
        if hp.rank() == 0:
            print(
                f"{way}, {arguments.codec}, {hp.size()} ranks: {arguments.batch * hp.size() / median:.1f} images/s, "
                f"{1e3 * median:.0f} ms and {megabytes:.2f} MB sent per step",
                flush=True,
            )


def main() -> None:
    arguments = parse_arguments()
    for way in arguments.ways:
        measure(way, arguments)


if __name__ == "__main__":
    main()

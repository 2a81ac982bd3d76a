# SPDX-License-Identifier: Apache-2.0
"""ImageNet, data-parallel: VGG-19 or ResNet-50, whose gradients HiPress compresses and synchronises.

    horovodrun -np 2 -H node1:1,node2:1 python pytorch_imagenet.py --batch-size 16 --epochs 1 --num-iterations 300 \\
        --model vgg19 --algorithm tbq
    hipress run -np 2 python pytorch_imagenet.py --model resnet50 --algorithm onebit \\
        --train-dir imagenet/train --val-dir imagenet/val

Without --train-dir the images are random; then only the images per second have a meaning.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import devices
import torch
from image_folder import Batches, ImageFolder
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, DistributedSampler

import hipress.torch as hp

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the benchmarks have the models
from benchmarks.models.resnet50 import Resnet50
from benchmarks.models.vgg19 import Vgg19

MODELS: dict[str, type[nn.Module]] = {"vgg19": Vgg19, "resnet50": Resnet50}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train on ImageNet.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--model", choices=MODELS, default="vgg19")
    parser.add_argument("--algorithm", default="none", help="codec of the gradients: none, onebit, tbq, terngrad, ...")
    parser.add_argument("--topology", default="ps", help="ps, ring, allgather or hierarchical")
    parser.add_argument("--batch-size", type=int, default=16, help="images per rank and iteration")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument(
        "--num-iterations", type=int, default=300, help="iterations per epoch, if there are enough images"
    )
    parser.add_argument("--train-dir", type=Path, help="has one folder per class; without it images are random")
    parser.add_argument("--val-dir", type=Path, help="as --train-dir; to measure accuracy after each epoch")
    parser.add_argument("--image-size", type=int, default=224, help="pixels; VGG-19 takes 224 only")
    parser.add_argument("--base-lr", type=float, default=0.0125, help="learning rate per rank")
    parser.add_argument("--warmup-epochs", type=float, default=5, help="epochs in which the learning rate rises")
    parser.add_argument("--momentum", type=float, default=0.9, help="not used with dgc, which has its own")
    parser.add_argument("--wd", type=float, default=0.00005, help="weight decay")
    parser.add_argument("--workers", type=int, default=0, help="processes that read images, per rank")
    parser.add_argument("--seed", type=int, default=42)
    devices.add_device(parser)
    return parser.parse_args()


def learning_rate(arguments: argparse.Namespace, epochs: float) -> float:
    """The learning rate rises from one rank's rate to all ranks' rate, and falls to a tenth at epochs 30, 60 and 80.

    Goyal et al., Accurate, Large Minibatch SGD.
    """
    warmup = min(1.0, epochs / arguments.warmup_epochs) if arguments.warmup_epochs > 0 else 1.0
    scale = 1 + warmup * (hp.size() - 1)
    return float(arguments.base_lr * scale * 0.1 ** sum(epochs >= end for end in (30, 60, 80)))


def measure_accuracy(model: nn.Module, arguments: argparse.Namespace) -> float:
    """The accuracy over all ranks; each rank tests its share of the images."""
    images = ImageFolder(arguments.val_dir, arguments.image_size, training=False)
    share = DistributedSampler(images, hp.size(), hp.rank(), shuffle=False)
    right = []
    model.eval()
    with torch.no_grad():
        for batch, labels in DataLoader(images, arguments.batch_size, sampler=share, num_workers=arguments.workers):
            device = next(model.parameters()).device
            right.append((model(batch.to(device)).argmax(dim=1).cpu() == labels).double())
    model.train()
    return float(hp.allreduce(torch.cat(right).mean(), name="accuracy"))


def main() -> None:
    arguments = parse_arguments()
    hp.init()
    device = devices.chosen(arguments)
    torch.set_num_threads(max(1, torch.get_num_threads() // hp.local_size()))
    torch.manual_seed(arguments.seed)
    batches = Batches(arguments)
    model = MODELS[arguments.model]().to(device)
    momentum = 0.0 if arguments.algorithm.startswith("dgc") else arguments.momentum
    optimizer = torch.optim.SGD(model.parameters(), arguments.base_lr, momentum, weight_decay=arguments.wd)
    optimizer = hp.DistributedOptimizer(
        optimizer, model.named_parameters(), codec=arguments.algorithm, topology=arguments.topology
    )
    hp.broadcast_parameters(model.state_dict(), root_rank=0)
    hp.broadcast_optimizer_state(optimizer, root_rank=0)

    sent_before = hp.counters()["bytes_sent"]
    seconds: list[float] = []
    for epoch in range(arguments.epochs):
        loss = torch.zeros(())
        for iteration, (images, labels) in enumerate(batches.epoch(epoch)):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(arguments, epoch + iteration / len(batches))
            started = time.perf_counter()
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            seconds.append(time.perf_counter() - started)
            if hp.rank() == 0 and (iteration % 10 == 0 or iteration + 1 == len(batches)):
                rate = arguments.batch_size * hp.size() / seconds[-1]
                print(
                    f"epoch {epoch + 1} iteration {iteration + 1}/{len(batches)}   loss {loss.item():.4f}   "
                    f"{rate:.1f} images/s",
                    flush=True,
                )
        mean_loss = hp.allreduce(loss.detach(), name="loss").item()
        accuracy = f"   accuracy {measure_accuracy(model, arguments):.2%}" if arguments.val_dir else ""
        if hp.rank() == 0:
            print(f"epoch {epoch + 1}/{arguments.epochs}   last loss {mean_loss:.4f}{accuracy}", flush=True)
    if hp.rank() == 0:
        # The first iteration does not count: it allocates memory and connects.
        median = statistics.median(seconds[1:] or seconds)
        rate = arguments.batch_size * hp.size() / median
        sent = (hp.counters()["bytes_sent"] - sent_before) / len(seconds)
        print(
            f"{arguments.model}, {arguments.algorithm}, {hp.size()} ranks: {rate:.1f} images/s, "
            f"{sent / 1e6:.1f} MB sent per rank and iteration"
        )
    hp.shutdown()


if __name__ == "__main__":
    main()

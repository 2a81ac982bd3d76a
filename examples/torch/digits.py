# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, data-parallel: a small convolutional network whose gradients HiPress synchronises.

    python digits.py                                            one process
    hipress run -np 4 python digits.py --codec onebit           four, on this machine
    torchrun --nproc-per-node 4 digits.py --codec onebit        the same, started by PyTorch's launcher
    hipress run -np 4 python digits.py --codec "dgc(ratio=0.01)" --warmup-epochs 2

dgc and graddrop send few values. In warm-up epochs they send more: 1/4 of the values, then 1/16, and so on until the
ratio of --codec is reached (Lin et al., Deep Gradient Compression, section 3.3). dgc applies momentum before it drops
values, so the optimizer has no momentum then.

The data are the 1797 real images of 8×8 pixels that come with scikit-learn. Nothing is downloaded.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import devices
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional

import hipress.torch as hp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for digits_training.py
from digits_training import parse_arguments, warmup_codecs, write_results


def load_images() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels for training, then for the test. The test set is the same third of all images for any seed."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1)
    images = (images - images.mean()) / images.std()
    labels = torch.tensor(digits.target)
    train, test = train_test_split(range(len(labels)), test_size=1 / 3, stratify=digits.target, random_state=0)
    return images[train], labels[train], images[test], labels[test]


def build_model() -> nn.Module:
    """A network with nearly all of its 417 000 weights in one layer, as networks that gain most from compression."""
    return nn.Sequential(
        nn.Conv2d(1, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 384),
        nn.ReLU(),
        nn.Linear(384, 10),
    )


def measure_accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return float((model(images).argmax(dim=1) == labels).double().mean())


def main(options: Sequence[str] | None = None) -> None:
    """Trains once. `options`: the options of the command line; None: this program's own."""
    arguments = parse_arguments(options, devices.add_device)
    hp.init()
    device = devices.chosen(arguments)
    torch.set_num_threads(1)  # several ranks share the cores of this machine
    torch.manual_seed(arguments.seed)
    images, labels, test_images, test_labels = (each.to(device) for each in load_images())
    steps_per_epoch = len(images) // (arguments.batch_size * hp.size())
    if steps_per_epoch == 0:
        raise SystemExit(f"{len(images)} images do not fill one batch of {hp.size()} ranks: lower --batch-size")
    steps = arguments.epochs * steps_per_epoch

    model = build_model().to(device)
    momentum = 0.0 if arguments.codec.startswith("dgc") else 0.9  # dgc has its own momentum
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr, momentum=momentum)
    warmup = warmup_codecs(arguments.codec, arguments.warmup_epochs)
    optimizer = hp.DistributedOptimizer(
        optimizer,
        model.named_parameters(),
        codec=arguments.codec,
        topology=arguments.topology,
        partitions=arguments.partitions,
    )
    # The learning rate rises over the first fifth of the steps, then falls to almost nothing.
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=arguments.lr, total_steps=steps, pct_start=0.2, cycle_momentum=False
    )
    hp.broadcast_parameters(model.state_dict(), root_rank=0)
    hp.broadcast_optimizer_state(optimizer, root_rank=0)

    losses: list[float] = []
    seconds: list[float] = []
    accuracy = 0.0
    sent_by_epoch: list[int] = []
    order_generator = torch.Generator().manual_seed(arguments.seed)
    for epoch in range(arguments.epochs):
        # First the codecs of the warm-up, then the codec of --codec. The residuals stay.
        codec = warmup[epoch] if epoch < len(warmup) else arguments.codec
        if warmup and epoch <= len(warmup):
            optimizer.set_codec(codec)
            if hp.rank() == 0:
                print(f"epoch {epoch + 1:2}/{arguments.epochs}   codec {codec}", flush=True)
        sent_before = hp.counters()["bytes_sent"]
        # Every rank draws the same order and takes its own part, so no image is used twice.
        order = torch.randperm(len(images), generator=order_generator)[hp.rank() :: hp.size()]
        for step in range(steps_per_epoch):
            started = time.perf_counter()
            batch = order[step * arguments.batch_size : (step + 1) * arguments.batch_size]
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            schedule.step()
            seconds.append(time.perf_counter() - started)
            losses.append(loss.item())
        sent_by_epoch.append(hp.counters()["bytes_sent"] - sent_before)
        if hp.rank() == 0:  # all ranks hold the same model: one test is enough
            accuracy = measure_accuracy(model, test_images, test_labels)
            loss_of_epoch = statistics.mean(losses[-steps_per_epoch:])
            print(
                f"epoch {epoch + 1:2}/{arguments.epochs}   loss {loss_of_epoch:.4f}   test accuracy {accuracy:.2%}",
                flush=True,
            )

    # Average over the ranks, because each rank has seen its own images and has aggregated its own share.
    mean_losses = hp.allreduce(torch.tensor(losses, dtype=torch.float64), name="losses")
    mean_sent = hp.allreduce(torch.tensor(sent_by_epoch, dtype=torch.float64), name="bytes sent")
    if hp.rank() == 0:
        median = statistics.median(seconds)
        write_results(
            arguments, hp.size(), accuracy, mean_losses.tolist(), mean_sent.tolist(), median_step_seconds=median
        )
    hp.shutdown()


if __name__ == "__main__":
    main()

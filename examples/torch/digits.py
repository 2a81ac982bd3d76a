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

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional

import hipress.torch as hp
from hipress._core import describe_codecs

#: The ratio of a warm-up epoch divided by the ratio of the epoch before.
WARMUP_FACTOR = 1 / 4


def codec_options() -> dict[str, dict[str, str]]:
    """The options of each codec with their defaults, as text."""
    codecs = sorted(describe_codecs(), key=lambda codec: codec["id"])
    return {codec["name"]: {option["name"]: option["default"] for option in codec["options"]} for codec in codecs}


def codec_text(name: str, options: dict[str, str]) -> str:
    return f"{name}({', '.join(f'{key}={value}' for key, value in options.items())})" if options else name


def warmup_codecs(codec: str, epochs: int) -> list[str]:
    """The codec of each warm-up epoch; an empty list for codecs without a ratio."""
    name, _, text = codec.replace(" ", "").rstrip(")").partition("(")
    options = dict(option.split("=") for option in text.split(",") if option)
    ratio = options.get("ratio", codec_options().get(name, {}).get("ratio"))
    if ratio is None:
        return []
    ratios = [max(float(ratio), WARMUP_FACTOR ** (epoch + 1)) for epoch in range(epochs)]
    return [codec_text(name, {**options, "ratio": str(each)}) for each in ratios]


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    codecs = "; ".join(codec_text(name, options) for name, options in codec_options().items())
    parser = argparse.ArgumentParser(
        description="Train on handwritten digits.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--codec", default="none", help=f"codec of the gradients, with any options: {codecs}")
    parser.add_argument("--warmup-epochs", type=int, default=4, help="epochs in which dgc and graddrop send more")
    parser.add_argument("--topology", default="ps", help="ps, ring, allgather or hierarchical")
    parser.add_argument("--partitions", type=int, default=0, help="partitions per gradient; 0: by size")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=8, help="images per rank and step")
    parser.add_argument("--lr", type=float, default=0.03, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first weights and of the order of images")
    parser.add_argument("--json", type=Path, metavar="FILE", help="rank 0 writes results here")
    return parser.parse_args(arguments)


def load_images() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels for training, then for the test. The test set is the same third of all images for any seed."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1)
    images = (images - images.mean()) / images.std()
    labels = torch.tensor(digits.target)
    train, test = train_test_split(range(len(labels)), test_size=1 / 3, stratify=digits.target, random_state=0)
    return images[train], labels[train], images[test], labels[test]


def build_model() -> nn.Module:
    """Nearly all of its 417 000 weights are in one layer, as in the networks that gain most from compression."""
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
    """Trains once; `options` are those of the command line."""
    arguments = parse_arguments(options)
    hp.init()
    torch.set_num_threads(1)  # several ranks share the cores of this machine
    torch.manual_seed(arguments.seed)
    images, labels, test_images, test_labels = load_images()
    steps_per_epoch = len(images) // (arguments.batch_size * hp.size())
    if steps_per_epoch == 0:
        raise SystemExit(f"{len(images)} images do not fill one batch of {hp.size()} ranks: lower --batch-size")
    steps = arguments.epochs * steps_per_epoch

    model = build_model()
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

    # Averages over the ranks: each rank has seen its own images and has aggregated its own share.
    mean_losses = hp.allreduce(torch.tensor(losses, dtype=torch.float64), name="losses")
    mean_sent = hp.allreduce(torch.tensor(sent_by_epoch, dtype=torch.float64), name="bytes sent")
    if hp.rank() == 0 and arguments.json is not None:
        results = {
            "codec": arguments.codec,
            "warmup_codecs": warmup,
            "topology": arguments.topology,
            "world_size": hp.size(),
            "seed": arguments.seed,
            "test_accuracy": accuracy,
            "bytes_per_step_and_rank": round(mean_sent.sum().item() / steps),
            "bytes_by_epoch": [round(sent) for sent in mean_sent.tolist()],
            "median_step_seconds": statistics.median(seconds),
            "loss": [round(value, 5) for value in mean_losses.tolist()],
        }
        arguments.json.write_text(json.dumps(results) + "\n")
    hp.shutdown()


if __name__ == "__main__":
    main()

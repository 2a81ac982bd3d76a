# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, data-parallel, with MXNet: a small convolutional network whose gradients HiPress synchronises.

    python digits.py                                            one process
    hipress run -np 4 python digits.py --codec onebit           four, on this machine
    hipress run -np 4 python digits.py --codec "dgc(ratio=0.01)" --warmup-epochs 2

Network, data and learning rates are those of examples/torch/digits.py, which describes them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # several ranks share the cores of this machine

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import hipress.mxnet as hp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for digits_training.py
from digits_training import learning_rate, parse_arguments, warmup_codecs, write_results


def load_images() -> tuple[mx.nd.NDArray, mx.nd.NDArray, mx.nd.NDArray, mx.nd.NDArray]:
    """Images and labels for training, then for the test. The test set is the same third of all images for any seed."""
    digits = load_digits()
    images = digits.images.astype(np.float32)[:, None]
    images = (images - images.mean()) / images.std(ddof=1)
    train, test = train_test_split(range(len(images)), test_size=1 / 3, stratify=digits.target, random_state=0)
    return (
        mx.nd.array(images[train]),
        mx.nd.array(digits.target[train]),
        mx.nd.array(images[test]),
        mx.nd.array(digits.target[test]),
    )


def build_network() -> gluon.nn.HybridSequential:
    """A network with nearly all of its 417 000 weights in one layer, as networks that gain most from compression."""
    network = gluon.nn.HybridSequential()
    network.add(
        gluon.nn.Conv2D(32, kernel_size=3, padding=1, activation="relu"),
        gluon.nn.Conv2D(64, kernel_size=3, padding=1, activation="relu"),
        gluon.nn.MaxPool2D(2),
        gluon.nn.Flatten(),
        gluon.nn.Dense(384, activation="relu"),
        gluon.nn.Dense(10),
    )
    network.initialize(mx.init.Xavier())
    return network


def measure_accuracy(network: gluon.Block, images: mx.nd.NDArray, labels: mx.nd.NDArray) -> float:
    return float((network(images).argmax(axis=1) == labels).mean().asscalar())


def main(options: Sequence[str] | None = None) -> None:
    arguments = parse_arguments(options)
    hp.init()
    mx.random.seed(arguments.seed)
    images, labels, test_images, test_labels = load_images()
    steps_per_epoch = len(images) // (arguments.batch_size * hp.size())
    if steps_per_epoch == 0:
        raise SystemExit(f"{len(images)} images do not fill one batch of {hp.size()} ranks: lower --batch-size")
    steps = arguments.epochs * steps_per_epoch

    network = build_network()
    momentum = 0.0 if arguments.codec.startswith("dgc") else 0.9  # dgc has its own momentum
    # MXNet learns the shapes of the parameters in the first forward pass, and broadcasts them then.
    hp.broadcast_parameters(network.collect_params(), root_rank=0)
    trainer = hp.DistributedTrainer(
        network.collect_params(),
        "sgd",
        {"learning_rate": arguments.lr, "momentum": momentum},
        codec=arguments.codec,
        topology=arguments.topology,
        partitions=arguments.partitions,
    )
    warmup = warmup_codecs(arguments.codec, arguments.warmup_epochs)
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()

    losses: list[float] = []
    sent_by_epoch: list[int] = []
    accuracy = 0.0
    order_generator = np.random.default_rng(arguments.seed)
    for epoch in range(arguments.epochs):
        sent_before = hp.counters()["bytes_sent"]
        # Every rank draws the same order and takes its own part, so no image is used twice.
        order = order_generator.permutation(len(images))[hp.rank() :: hp.size()]
        of_epoch = []
        for step in range(steps_per_epoch):
            batch = mx.nd.array(order[step * arguments.batch_size : (step + 1) * arguments.batch_size])
            with autograd.record():
                loss = criterion(network(images.take(batch)), labels.take(batch))
            loss.backward()
            if step == 0 and warmup and epoch <= len(warmup):
                # First the codecs of the warm-up, then the codec of --codec. The residuals stay.
                trainer.set_codec(warmup[epoch] if epoch < len(warmup) else arguments.codec)
            trainer.set_learning_rate(learning_rate(epoch * steps_per_epoch + step, steps, arguments.lr))
            trainer.step(arguments.batch_size)
            of_epoch.append(loss.mean())  # MXNet computes the mean later: no step waits for it
        losses += [each.asscalar() for each in of_epoch]
        mx.nd.waitall()
        sent_by_epoch.append(hp.counters()["bytes_sent"] - sent_before)
        if hp.rank() == 0:  # all ranks hold the same network: one test is enough
            accuracy = measure_accuracy(network, test_images, test_labels)
            mean = np.mean(losses[-steps_per_epoch:])
            print(
                f"epoch {epoch + 1:2}/{arguments.epochs}   loss {mean:.4f}   test accuracy {accuracy:.2%}", flush=True
            )

    # Average over the ranks, because each rank has seen its own images and has aggregated its own share.
    mean_losses = hp.allreduce(mx.nd.array(losses), name="losses").asnumpy()
    mean_sent = hp.allreduce(mx.nd.array(sent_by_epoch, dtype=np.float64), name="bytes sent").asnumpy()
    if hp.rank() == 0:
        write_results(arguments, hp.size(), accuracy, map(float, mean_losses), map(float, mean_sent))
    hp.shutdown()


if __name__ == "__main__":
    main()

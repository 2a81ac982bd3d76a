# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, data-parallel, with TensorFlow: a small network whose gradients HiPress synchronises.

    python digits.py                                            one process
    hipress run -np 4 python digits.py --codec onebit           four, on this machine
    hipress run -np 4 python digits.py --codec "dgc(ratio=0.01)" --warmup-epochs 2

Network, data and learning rates are those of examples/torch/digits.py, which describes them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import hipress.tensorflow as hp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for digits_training.py
from digits_training import learning_rate, parse_arguments, warmup_codecs, write_results


def load_images() -> tuple[Any, Any, Any, Any]:
    """Images and labels for training, then for the test. The test set is the same third of all images for any seed."""
    digits = load_digits()
    images = digits.images.astype(np.float32)[..., np.newaxis]
    images = (images - images.mean()) / images.std(ddof=1)
    train, test = train_test_split(range(len(images)), test_size=1 / 3, stratify=digits.target, random_state=0)
    return images[train], digits.target[train], images[test], digits.target[test]


def build_model() -> Any:
    """A network with nearly all of its 417 000 weights in one layer, as networks that gain most from compression."""

    def initial(inputs: int) -> dict[str, Any]:
        limit = 1 / math.sqrt(inputs)  # the range from which PyTorch draws first weights
        uniform = keras.initializers.RandomUniform(-limit, limit)
        return {"kernel_initializer": uniform, "bias_initializer": uniform.clone()}

    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu", **initial(9)),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu", **initial(9 * 32)),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dense(384, activation="relu", **initial(64 * 4 * 4)),
            keras.layers.Dense(10, **initial(384)),
        ]
    )


def main(options: Sequence[str] | None = None) -> None:
    arguments = parse_arguments(options)
    tf.config.threading.set_intra_op_parallelism_threads(1)  # several ranks share the cores of this machine
    tf.config.threading.set_inter_op_parallelism_threads(2)
    hp.init()
    if gpus := tf.config.list_physical_devices("GPU"):
        tf.config.set_visible_devices(gpus[hp.local_rank() % len(gpus)], "GPU")
    keras.utils.set_random_seed(arguments.seed)
    images, labels, test_images, test_labels = load_images()
    steps_per_epoch = len(images) // (arguments.batch_size * hp.size())
    if steps_per_epoch == 0:
        raise SystemExit(f"{len(images)} images do not fill one batch of {hp.size()} ranks: lower --batch-size")
    steps = arguments.epochs * steps_per_epoch

    model = build_model()
    momentum = 0.0 if arguments.codec.startswith("dgc") else 0.9  # dgc has its own momentum
    optimizer = hp.DistributedOptimizer(
        keras.optimizers.SGD(arguments.lr, momentum=momentum),
        codec=arguments.codec,
        topology=arguments.topology,
        partitions=arguments.partitions,
    )
    optimizer.build(model.trainable_variables)
    hp.broadcast_variables([*model.variables, *optimizer.variables], root_rank=0)
    criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def train_step(batch_images: Any, batch_labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = criterion(batch_labels, model(batch_images, training=True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    losses: list[float] = []
    accuracy = 0.0
    sent_by_epoch: list[int] = []
    warmup = warmup_codecs(arguments.codec, arguments.warmup_epochs)
    orders = np.random.default_rng(arguments.seed)
    for epoch in range(arguments.epochs):
        if warmup and epoch <= len(warmup):
            # First the codecs of the warm-up, then the codec of --codec. The residuals stay.
            optimizer.set_codec(warmup[epoch] if epoch < len(warmup) else arguments.codec)
        sent_before = hp.counters()["bytes_sent"]
        # Every rank draws the same order and takes its own part, so no image is used twice.
        order = orders.permutation(len(images))[hp.rank() :: hp.size()]
        for step in range(steps_per_epoch):
            optimizer.learning_rate = learning_rate(epoch * steps_per_epoch + step, steps, arguments.lr)
            batch = order[step * arguments.batch_size : (step + 1) * arguments.batch_size]
            losses.append(float(train_step(tf.constant(images[batch]), tf.constant(labels[batch]))))
        sent_by_epoch.append(hp.counters()["bytes_sent"] - sent_before)
        if hp.rank() == 0:  # all ranks hold the same model: one test is enough
            accuracy = float((model(test_images).numpy().argmax(axis=1) == test_labels).mean())
            loss = np.mean(losses[-steps_per_epoch:])
            print(
                f"epoch {epoch + 1:2}/{arguments.epochs}   loss {loss:.4f}   test accuracy {accuracy:.2%}", flush=True
            )

    # Average over the ranks, because each rank has seen its own images and has aggregated its own share.
    mean_losses = hp.allreduce(np.array(losses), name="losses").numpy()
    mean_sent = hp.allreduce(np.array(sent_by_epoch, np.float64), name="bytes sent").numpy()
    if hp.rank() == 0:
        write_results(arguments, hp.size(), accuracy, map(float, mean_losses), map(float, mean_sent))
    hp.shutdown()


if __name__ == "__main__":
    main()

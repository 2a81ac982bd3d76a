# SPDX-License-Identifier: Apache-2.0
"""A training with a tape in a tf.function, as in Horovod's guide to elastic jobs; arguments and reports are those of
tests/torch/elastic/training.py.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import hipress.tensorflow as hp

FEATURES = 30
SOLUTION = np.linspace(-1, 1, 8 * FEATURES, dtype=np.float32).reshape(FEATURES, 8)


def batch(step: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Inputs and targets of a linear model without noise."""
    inputs = np.random.default_rng([step, hp.rank()]).standard_normal((16, FEATURES)).astype(np.float32)
    return tf.constant(inputs), tf.constant(inputs @ SOLUTION)


def main(folder: Path, codec: str, steps: int, commit_every: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    number = os.environ["HIPRESS_ELASTIC_PROCESS"]
    report = (folder / f"{number}.txt").open("a", buffering=1)
    hp.init()
    keras.utils.set_random_seed(int(number))  # every process begins with other parameters
    model = keras.Sequential([keras.Input([FEATURES]), keras.layers.Dense(8, use_bias=False)])
    optimizer = keras.optimizers.SGD(0.5)

    @tf.function
    def train_one_batch(inputs: tf.Tensor, targets: tf.Tensor, allreduce: bool = True) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(inputs, training=True) - targets))
        if allreduce:
            tape = hp.DistributedGradientTape(tape, codec=codec, min_compress_bytes=0)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    train_one_batch(*batch(0), allreduce=False)  # makes the optimizer's variables
    state = hp.elastic.TensorFlowKerasState(model, optimizer, step=0)

    @hp.elastic.run
    def train(state: Any) -> float:
        report.write(f"begins {state.step} {hp.rank()} {hp.size()} {os.getpid()} {time.time():.3f}\n")
        loss = 0.0
        while state.step < steps:
            loss = float(train_one_batch(*batch(state.step)))
            state.step += 1
            report.write(f"step {state.step}\n")
            time.sleep(0.02)
            while (folder / f"pause-{number}").exists():
                time.sleep(0.01)
            if state.step % commit_every == 0:
                state.commit()
        return loss

    loss = train(state)
    digest = hashlib.sha256(model.get_weights()[0].tobytes()).hexdigest()
    lost = sorted(each.process for each in hp.elastic.losses())
    report.write(f"ends {loss:.6f} {digest} {lost}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

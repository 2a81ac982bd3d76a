# SPDX-License-Identifier: Apache-2.0
"""A training with model.fit() for `hipress run --elastic`; arguments and reports are those of
tests/launch/elastic/training.py.
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

import hipress.tensorflow.keras as hp
from hipress.elastic import losses

FEATURES = 30


class Report(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes a line after each step, and holds the process while a file says so."""

    def __init__(self, state: Any, file: Any, pause: Path) -> None:
        super().__init__()
        self.state, self.file, self.pause_file = state, file, pause

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.state.step += 1
        self.file.write(f"step {self.state.step}\n")
        time.sleep(0.02)
        while self.pause_file.exists():
            time.sleep(0.01)


def batches(state: Any, steps: int) -> Any:
    """The batches of the steps that are left."""
    solution = np.linspace(-1, 1, 8 * FEATURES, dtype=np.float32).reshape(FEATURES, 8)
    for step in range(state.step, steps):
        inputs = np.random.default_rng([step, hp.rank()]).standard_normal((16, FEATURES)).astype(np.float32)
        yield inputs, inputs @ solution


def main(folder: Path, codec: str, steps: int, commit_every: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    number = os.environ["HIPRESS_ELASTIC_PROCESS"]
    report = (folder / f"{number}.txt").open("a", buffering=1)
    hp.init()
    keras.utils.set_random_seed(int(number))  # every process begins with other parameters
    model = keras.Sequential([keras.Input([FEATURES]), keras.layers.Dense(8, use_bias=False)])
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(0.5), codec=codec, min_compress_bytes=0)
    model.compile(optimizer, "mse")
    state = hp.elastic.KerasState(model, step=0)

    @hp.elastic.run
    def train(state: Any) -> None:
        report.write(f"begins {state.step} {hp.rank()} {hp.size()} {os.getpid()}\n")
        callbacks = [
            Report(state, report, folder / f"pause-{number}"),
            hp.elastic.CommitStateCallback(state, batches_per_commit=commit_every),
        ]
        if state.step < steps:
            model.fit(batches(state, steps), steps_per_epoch=steps - state.step, verbose=0, callbacks=callbacks)

    train(state)
    loss = float(model.evaluate(*next(batches(_At(steps - 1), steps)), verbose=0))
    digest = hashlib.sha256(model.get_weights()[0].tobytes()).hexdigest()
    lost = sorted(each.process for each in losses())
    report.write(f"ends {loss:.6f} {digest} {lost}\n")


class _At:
    """The step of a state."""

    def __init__(self, step: int) -> None:
        self.step = step


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

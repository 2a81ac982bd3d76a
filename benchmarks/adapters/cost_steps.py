# SPDX-License-Identifier: Apache-2.0
"""The process of adapter_cost.py for one framework, in the environment of that framework.

    python benchmarks/adapters/cost_steps.py FRAMEWORK TENSORS STEPS

It prints pairs of seconds as JSON: the processor time of a plain step, and of the distributed step after it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Step = Callable[[], Any]
#: Number of first steps, which trace graphs, agree on tensors, and allocate memory.
WARM_UPS = 5
LEARNING_RATE = 1e-6


def torch_steps(tensors: int) -> tuple[Step, Step]:
    import torch

    import hipress.torch as hp

    torch.set_num_threads(1)
    hp.init()

    def step_with(distributed: bool) -> Step:
        parameters = [torch.nn.Parameter(torch.ones(1)) for _ in range(tensors)]
        optimizer: Any = torch.optim.SGD(parameters, lr=LEARNING_RATE)
        if distributed:
            optimizer = hp.DistributedOptimizer(optimizer)

        def step() -> None:
            optimizer.zero_grad()
            torch.stack([parameter * parameter for parameter in parameters]).sum().backward()
            optimizer.step()

        return step

    return step_with(False), step_with(True)


def tensorflow_steps(tensors: int) -> tuple[Step, Step]:
    import keras
    import tensorflow as tf

    import hipress.tensorflow as hp

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    hp.init()

    def step_with(distributed: bool) -> Step:
        variables = [tf.Variable(tf.ones(1), name=f"v{number}") for number in range(tensors)]
        optimizer: Any = keras.optimizers.SGD(LEARNING_RATE)
        if distributed:
            optimizer = hp.DistributedOptimizer(optimizer)

        @tf.function
        def step() -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.stack([variable * variable for variable in variables]))
            optimizer.apply(tape.gradient(loss, variables), variables)

        return step

    return step_with(False), step_with(True)


def mxnet_steps(tensors: int) -> tuple[Step, Step]:
    os.environ["OMP_NUM_THREADS"] = "1"
    import mxnet as mx

    import hipress.mxnet as hp

    hp.init()

    def step_with(distributed: bool) -> Step:
        parameters = mx.gluon.ParameterDict()
        for number in range(tensors):
            parameters.get(f"p{number}", shape=(1,), init="ones")
        parameters.initialize()
        if distributed:
            trainer = hp.DistributedTrainer(parameters, "sgd", {"learning_rate": LEARNING_RATE})
        else:
            trainer = mx.gluon.Trainer(parameters, "sgd", {"learning_rate": LEARNING_RATE}, kvstore=None)
        arrays = [parameter.data() for parameter in parameters.values()]

        def step() -> None:
            with mx.autograd.record():
                loss = mx.nd.add_n(*[array * array for array in arrays])
            loss.backward()
            trainer.step(1)
            mx.nd.waitall()

        return step

    return step_with(False), step_with(True)


STEPS_OF = {"torch": torch_steps, "tensorflow": tensorflow_steps, "mxnet": mxnet_steps}


def seconds_of(step: Step) -> float:
    """The processor time of one step, of all threads."""
    started = time.process_time()
    step()
    return time.process_time() - started


def main() -> None:
    framework, tensors, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    plain, distributed = STEPS_OF[framework](tensors)
    for _ in range(WARM_UPS):
        plain()
        distributed()
    print(json.dumps([(seconds_of(plain), seconds_of(distributed)) for _ in range(steps)]))


if __name__ == "__main__":
    main()

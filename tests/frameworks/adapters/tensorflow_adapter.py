# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import keras
import tensorflow as tf

import hipress.tensorflow
from hipress.tensorflow import codec_operators
from tests.frameworks.adapters.adapter import Adapter, Array


class TensorflowAdapter(Adapter):
    name = "tensorflow"
    dtypes = (*Adapter.dtypes, "int16", "bool")
    not_yet = dict.fromkeys(
        (
            "check_a_call_that_one_rank_refuses_is_an_error_on_all",
            "check_a_part_that_one_rank_refuses_is_an_error_on_all",
        ),
        "a refusal may come while a rank traces a graph, which other ranks trace at other times",
    )

    @property
    def module(self) -> ModuleType:
        return hipress.tensorflow

    def tensor(self, values: Array) -> tf.Tensor:
        return tf.constant(values)

    def numpy(self, tensor: tf.Tensor) -> Array:
        values: Array = tensor.numpy()
        return values

    def gradient(self, function: str, values: Array, weights: Array, *arguments: Any, **options: Any) -> Array:
        tensor = self.tensor(values)
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            result = getattr(self.module, function)(tensor, *arguments, **options)
            total = tf.reduce_sum(result * self.tensor(weights))
        return self.numpy(tape.gradient(total, tensor))

    def encode(self, codec: str, values: Array, *, seed: int, step: int, tensor: int) -> bytes:
        message, _ = codec_operators.encode(codec, self.tensor(values), seed=seed, step=step, tensor=tensor)
        return self.numpy(message).tobytes()

    def train(
        self,
        weights: dict[str, Array],
        batches: list[tuple[Array, Array]],
        *,
        changes: Mapping[int, Any] | None = None,
        **options: Any,
    ) -> dict[str, Array]:
        variables = {name: tf.Variable(value, name=name) for name, value in weights.items()}
        optimizer = hipress.tensorflow.DistributedOptimizer(keras.optimizers.SGD(0.1), **options)

        @tf.function(autograph=False)  # AutoGraph changes the type of an error in the first step
        def step(inputs: tf.Tensor, targets: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(inputs @ variables["w"] + variables["b"] - targets))
            trained = list(variables.values())
            optimizer.apply(tape.gradient(loss, trained), trained)

        for number, (inputs, targets) in enumerate(batches):
            if changes is not None and number in changes:
                optimizer.set_plan(changes[number])
            step(self.tensor(inputs), self.tensor(targets))
            optimizer.step_ended()
        return {name: self.numpy(variable) for name, variable in variables.items()}

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import mxnet as mx
import numpy as np

import hipress.mxnet
from hipress._library import load_core
from tests.frameworks.adapters.adapter import Adapter, Array

_RAISED_LATER = (
    "MXNet raises the error of an array that nobody has read in its next wait for all arrays, in another check"
)
_NO_DERIVATIVE = "Horovod's operations for MXNet have no derivatives"


class MxnetAdapter(Adapter):
    name = "mxnet"
    not_yet = dict.fromkeys(
        (
            "check_derivative_of_allreduce",
            "check_derivative_of_broadcast",
            "check_derivative_of_allgather",
            "check_derivative_of_alltoall",
            "check_derivative_of_reducescatter",
        ),
        _NO_DERIVATIVE,
    ) | {"check_a_part_that_one_rank_refuses_is_an_error_on_all": _RAISED_LATER}

    @property
    def module(self) -> ModuleType:
        return hipress.mxnet

    def tensor(self, values: Array) -> mx.nd.NDArray:
        return mx.nd.array(values, dtype=values.dtype)

    def numpy(self, tensor: mx.nd.NDArray) -> Array:
        values: Array = tensor.asnumpy()
        return values

    def gradient(self, function: str, values: Array, weights: Array, *arguments: Any, **options: Any) -> Array:
        raise NotImplementedError(_NO_DERIVATIVE)

    def encode(self, codec: str, values: Array, *, seed: int, step: int, tensor: int) -> bytes:
        import hipress.mxnet.codec_operators  # noqa: F401  (makes the operators)

        # MXNet's operators take every state that a codec can have, even if its options leave the state out.
        (described,) = (each for each in load_core().describe_codecs() if each["name"] == codec)
        states = [mx.nd.zeros(values.shape) for _ in described["states"]]
        encode = getattr(mx.nd, f"hipress_{codec}_encode")
        number = mx.nd.array([step], dtype=np.int64)
        message, length = encode(self.tensor(values), *states, number, seed=seed, tensor=tensor)
        return self.numpy(message)[: int(length.asscalar())].tobytes()

    def train(
        self,
        weights: dict[str, Array],
        batches: list[tuple[Array, Array]],
        *,
        changes: Mapping[int, Any] | None = None,
        **options: Any,
    ) -> dict[str, Array]:
        parameters = {name: mx.gluon.Parameter(name, shape=value.shape) for name, value in weights.items()}
        for name, parameter in parameters.items():
            parameter.initialize()
            parameter.set_data(self.tensor(weights[name]))
        trainer = hipress.mxnet.DistributedTrainer(list(parameters.values()), "sgd", {"learning_rate": 0.1}, **options)
        for number, (inputs, targets) in enumerate(batches):
            if changes is not None and number in changes:
                trainer.set_plan(changes[number])
            with mx.autograd.record():
                outputs = mx.nd.dot(self.tensor(inputs), parameters["w"].data()) + parameters["b"].data()
                loss = (outputs - self.tensor(targets)).square().mean()
            loss.backward()
            trainer.step(1)
        return {name: self.numpy(parameter.data()) for name, parameter in parameters.items()}

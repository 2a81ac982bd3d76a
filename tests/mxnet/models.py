# SPDX-License-Identifier: Apache-2.0
"""A small network, and its batches, backward pass and fingerprint for tests."""

from __future__ import annotations

import hashlib

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon


def mlp(seed: int = 0, hidden: int = 300, features: int = 16) -> gluon.nn.HybridSequential:
    """A classifier into 4 classes. With `features=0` MXNet learns the number of features in the first forward pass."""
    mx.random.seed(seed)
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(
            gluon.nn.Dense(hidden, activation="relu", in_units=features),
            gluon.nn.Dense(hidden, activation="relu", in_units=features and hidden),
            gluon.nn.Dense(4, in_units=features and hidden),
        )
    net.initialize(mx.init.Xavier())
    return net


def batch(rank: int, step: int, size: int = 8) -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
    """A rank's own samples of a step; their labels come from a fixed linear problem."""
    inputs = np.random.default_rng([step, rank]).normal(size=(size, 16)).astype(np.float32)
    weights = np.random.default_rng(7).normal(size=(16, 4)).astype(np.float32)
    return mx.nd.array(inputs), mx.nd.array((inputs @ weights).argmax(1))


def backward(net: gluon.Block, rank: int, step: int) -> mx.nd.NDArray:
    """Runs backward on a rank's batch and returns its losses."""
    inputs, labels = batch(rank, step)
    with autograd.record():
        loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(inputs), labels)
    loss.backward()
    return loss


def values(net: gluon.Block) -> dict[str, np.ndarray]:
    return {name: parameter.data().asnumpy() for name, parameter in net.collect_params().items()}


def fingerprint(net: gluon.Block) -> str:
    """A digest that is equal if and only if all parameters have the same bytes."""
    return hashlib.sha256(b"".join(value.tobytes() for value in values(net).values())).hexdigest()

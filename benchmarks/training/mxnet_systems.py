# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found"
"""The systems of MXNet. Each makes a training step from a network and a trainer, as users' code does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mxnet as mx
from mxnet import autograd, gluon
from numpy.typing import NDArray

from benchmarks.training.dist_kvstore import deadline
from benchmarks.training.measure import Step
from benchmarks.training.mxnet_models import resnet50

CLASSES = 1000
IMAGE = 224
#: The arguments of plain SGD, as in systems.py.
SGD = ("sgd", {"learning_rate": 1e-3})
#: The default of MXNet's 2-bit compression.
THRESHOLD = 0.5

Trainer = Callable[[Any], Any]


class Batch:
    """Random images, the same in every step."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.images = mx.nd.random.normal(shape=(size, 3, IMAGE, IMAGE))
        self.labels = mx.nd.random.randint(0, CLASSES, shape=(size,)).astype("float32")


@dataclass(frozen=True)
class Training:
    """A step on a batch, and the network that it trains."""

    step: Step
    network: gluon.HybridBlock

    def parameters(self) -> Iterator[NDArray[Any]]:
        """The trained parameters, without running means, which differ between ranks."""
        for parameter in self.network.collect_params().values():
            if parameter.grad_req != "null":
                yield parameter.data().asnumpy()


def _training(batch: Batch, make_trainer: Trainer, timeout: float) -> Training:
    network = resnet50(CLASSES)
    network.initialize(mx.init.Xavier())
    network.hybridize(static_alloc=True, static_shape=True)
    trainer = make_trainer(network.collect_params())
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()

    def step() -> None:
        with deadline(timeout):
            with autograd.record():
                loss = criterion(network(batch.images), batch.labels)
            loss.backward()
            trainer.step(batch.size)
            # MXNet's engine runs asynchronously; a step is over when the parameters have changed.
            mx.nd.waitall()

    return Training(step, network)


def alone(parameters: Any) -> gluon.Trainer:
    """The trainer that only computes: the lower bound of all systems."""
    return gluon.Trainer(parameters, *SGD, kvstore=None)


def ours(codec: str, topology: str) -> Trainer:
    """hipress.mxnet.DistributedTrainer."""

    def make_trainer(parameters: Any) -> Any:
        import hipress.mxnet as hp

        hp.broadcast_parameters(parameters, root_rank=0)
        return hp.DistributedTrainer(parameters, *SGD, codec=codec, topology=topology)

    return make_trainer


def dist_sync(parameters: Any) -> gluon.Trainer:
    """MXNet's parameter servers, which update the parameters."""
    return gluon.Trainer(parameters, *SGD, kvstore="dist_sync")


class _PushingTrainer(gluon.Trainer):  # type: ignore[misc]
    """Pushes a gradient and pulls its parameter, as Trainer did before MXNet 1.6. Later versions call pushpull(), which
    refuses compression: "Compression not supported with PushPull"."""

    def _allreduce_grads(self) -> None:
        for index, parameter in enumerate(self._params):
            if parameter.grad_req != "null":
                self._kvstore.push(index, parameter.list_grad(), priority=-index)
                self._kvstore.pull(index, parameter.list_data(), priority=-index)


def dist_sync_2bit(parameters: Any) -> gluon.Trainer:
    """dist_sync() with gradients of two bits; parameters return uncompressed."""
    compression = {"type": "2bit", "threshold": THRESHOLD}
    return _PushingTrainer(parameters, *SGD, kvstore="dist_sync", compression_params=compression)


def horovod(parameters: Any) -> Any:
    """horovod.mxnet.DistributedTrainer. Horovod must run."""
    import horovod.mxnet as hvd

    hvd.broadcast_parameters(parameters, root_rank=0)
    return hvd.DistributedTrainer(parameters, *SGD)


TRAINERS: dict[str, Trainer] = {
    "alone": alone,
    "dist-sync": dist_sync,
    "dist-sync-2bit": dist_sync_2bit,
    "horovod": horovod,
}


def make(system: str, batch: Batch, timeout: float) -> Training:
    """The training with a system: "alone", a peer's name, or "hipress CODEC TOPOLOGY". A step may take `timeout` s."""
    if system in TRAINERS:
        return _training(batch, TRAINERS[system], timeout)
    _, codec, topology = system.split(" ")
    return _training(batch, ours(codec, topology), timeout)

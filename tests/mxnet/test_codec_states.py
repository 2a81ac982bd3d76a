# SPDX-License-Identifier: Apache-2.0
"""Gluon checkpoints with what codecs hold back."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon

import hipress.mxnet as hp
from tests.adapter.hosts import start
from tests.mxnet.models import backward, fingerprint, mlp
from tests.mxnet.ranks import run

pytestmark = pytest.mark.slow

#: Every codec that comes with HiPress and keeps states.
STATEFUL = ["onebit", "tbq", "dgc(ratio=0.01)", "graddrop(ratio=0.01)", "int8", "int4"]


def _trainer(net: gluon.Block, codec: str, topology: str) -> Any:
    return hp.DistributedTrainer(
        net.collect_params(),
        "sgd",
        {"learning_rate": 0.1, "momentum": 0.9},
        codec=codec,
        topology=topology,
        partitions=2,
        min_compress_bytes=1024,
    )


def _steps(net: gluon.Block, trainer: Any, numbers: range) -> None:
    for step in numbers:
        backward(net, hp.rank(), step)
        trainer.step(8)


def _straight(topology: str, hosts: list[int], folder: str) -> dict[str, str]:
    """By codec the parameters after 100 steps; a checkpoint after 50."""
    start(hosts, hp.init)
    results = {}
    for number, codec in enumerate(STATEFUL):
        net = mlp(hidden=64)
        trainer = _trainer(net, codec, topology)
        _steps(net, trainer, range(50))
        mx.nd.save(f"{folder}/{number}.{hp.rank()}.codecs", hp.codec_states(trainer, exact=True))
        if hp.rank() == 0:
            net.save_parameters(f"{folder}/{number}.params")
            trainer.save_states(f"{folder}/{number}.states")
        _steps(net, trainer, range(50, 100))
        results[codec] = fingerprint(net)
    return results


def _resumed(topology: str, hosts: list[int], folder: str) -> dict[str, str]:
    start(hosts, hp.init)
    hp.allreduce(mx.nd.zeros(3)).wait_to_read()  # the core's numbers of the gradients are others than before
    results = {}
    for number, codec in enumerate(STATEFUL):
        net = mlp(seed=1, hidden=64)
        trainer = _trainer(net, codec, topology)
        net.load_parameters(f"{folder}/{number}.params")
        trainer.load_states(f"{folder}/{number}.states")
        hp.load_codec_states(trainer, mx.nd.load(f"{folder}/{number}.{hp.rank()}.codecs"))
        _steps(net, trainer, range(50, 100))
        results[codec] = fingerprint(net)
    return results


@pytest.mark.parametrize(("topology", "hosts"), [("ps", []), ("ring", []), ("hierarchical", [0, 0, 1])])
def test_fifty_steps_saved_and_fifty_more_equal_a_hundred_to_the_bit(
    tmp_path: Any, topology: str, hosts: list[int]
) -> None:
    straight = run(_straight, 3, topology, hosts, str(tmp_path))
    assert run(_resumed, 3, topology, hosts, str(tmp_path)) == straight


def _on_fewer_ranks(folder: str, *, saves: bool) -> float:
    """The largest value that is held back, or that a mean over ranks brings beside the gradient."""
    hp.init()
    net = mlp(hidden=64)
    trainer = _trainer(net, "onebit" if saves else "none", "ps")
    if saves:
        _steps(net, trainer, range(3))
        states = hp.codec_states(trainer)
        if hp.rank() == 0:
            mx.nd.save(f"{folder}/codecs.params", states)
        return max(float(each.abs().max().asscalar()) for key, each in states.items() if "/" in key)
    states = mx.nd.load(f"{folder}/codecs.params")
    hp.load_codec_states(trainer, states)
    backward(net, hp.rank(), 0)
    parameters = net.collect_params()
    own = {name: each.grad().copy() for name, each in parameters.items()}
    trainer.allreduce_grads()
    largest = 0.0
    for name, each in parameters.items():
        expected = hp.allreduce(own[name], name=f"own.{name}")
        residual = states.get(f"{name}/residual")
        if residual is not None:
            expected = expected + residual.reshape(expected.shape)
            largest = max(largest, float(residual.abs().max().asscalar()))
        np.testing.assert_allclose(each.grad().asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)
    return largest


def test_what_rank_zero_saved_reaches_the_average_of_another_number_of_ranks(tmp_path: Any) -> None:
    (saved, *_) = run(_saving, 3, str(tmp_path))
    assert run(_loading, 2, str(tmp_path)) == [saved, saved]
    assert saved > 1e-3


def _saving(folder: str) -> float:
    return _on_fewer_ranks(folder, saves=True)


def _loading(folder: str) -> float:
    return _on_fewer_ranks(folder, saves=False)


def _too_early() -> None:
    hp.init()
    net = mlp(features=0)
    trainer = _trainer(net, "onebit", "ps")
    with pytest.raises(hp.InvalidArgument, match="has no shape yet"):
        hp.codec_states(trainer)
    with pytest.raises(hp.InvalidArgument, match="takes a DistributedTrainer"):
        hp.codec_states(net)


def test_shapes_have_to_be_known() -> None:
    run(_too_early, 1)

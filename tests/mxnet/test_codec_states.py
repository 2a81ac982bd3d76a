# SPDX-License-Identifier: Apache-2.0
"""Gluon checkpoints keep the residuals of codecs."""

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

#: Every built-in codec with states.
STATEFUL = ["onebit", "tbq", "dgc(ratio=0.01)", "graddrop(ratio=0.01)", "int8(error_feedback=true)", "int4"]


def _net(seed: int = 0) -> Any:
    mx.random.seed(seed)
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(48, in_units=16))
        for number in range(len(STATEFUL)):
            net.add(gluon.nn.Dense(48, activation="tanh", in_units=48, prefix=f"layer{number}_"))
        net.add(gluon.nn.Dense(4, in_units=48))
    net.initialize(mx.init.Xavier())
    return net


def _trainer(net: gluon.Block, topology: str = "ps", codec: str = "") -> Any:
    """Gives each layer of _net() another codec, or all layers the codec `codec`."""
    codecs = {} if codec else {f"net_layer{number}_weight": each for number, each in enumerate(STATEFUL)}
    way: Any = {"codec": codec or "none", "codec_for": codecs, "topology": topology, "partitions": 2}
    return hp.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, min_compress_bytes=1024, **way)


def _steps(net: gluon.Block, trainer: Any, numbers: range) -> None:
    for step in numbers:
        backward(net, hp.rank(), step)
        trainer.step(8)


def _straight(topology: str, hosts: list[int], folder: str) -> str:
    """Trains for 100 steps, and saves a checkpoint after 50. Returns the parameters' fingerprint."""
    start(hosts, hp.init)
    net = _net()
    trainer = _trainer(net, topology)
    _steps(net, trainer, range(50))
    mx.nd.save(f"{folder}/{hp.rank()}.codecs", hp.codec_states(trainer, exact=True))
    if hp.rank() == 0:
        net.save_parameters(f"{folder}/net.params")
        trainer.save_states(f"{folder}/trainer.states")
    _steps(net, trainer, range(50, 100))
    return fingerprint(net)


def _resumed(topology: str, hosts: list[int], folder: str) -> tuple[str, set[str]]:
    """Loads the checkpoint and trains for 50 steps. Returns the parameters' fingerprint and the names of the loaded
    states."""
    start(hosts, hp.init)
    hp.allreduce(mx.nd.zeros(3)).wait_to_read()  # shifts the core's numbers of the gradients
    net = _net(seed=1)
    trainer = _trainer(net, topology)
    net.load_parameters(f"{folder}/net.params")
    trainer.load_states(f"{folder}/trainer.states")
    states = mx.nd.load(f"{folder}/{hp.rank()}.codecs")
    hp.load_codec_states(trainer, states)
    _steps(net, trainer, range(50, 100))
    return fingerprint(net), {key for key, each in states.items() if "/residual" in key and each.asnumpy().any()}


@pytest.mark.parametrize(("topology", "hosts"), [("ps", []), ("ring", []), ("hierarchical", [0, 0, 1])])
def test_fifty_steps_saved_and_fifty_more_equal_a_hundred_to_the_bit(
    tmp_path: Any, topology: str, hosts: list[int]
) -> None:
    straight = run(_straight, 3, topology, hosts, str(tmp_path))
    resumed = run(_resumed, 3, topology, hosts, str(tmp_path))
    assert [parameters for parameters, _ in resumed] == straight
    wanted = {f"net_layer{number}_weight/residual" for number in range(len(STATEFUL))}
    assert set.union(*(held_back for _, held_back in resumed)) == wanted


def _on_fewer_ranks(folder: str, *, saves: bool) -> float:
    """The largest residual on this rank. With `saves` false the rank loads the residuals, and checks that they are in
    the next averages."""
    hp.init()
    net = mlp(hidden=64)
    trainer = _trainer(net, codec="onebit" if saves else "none")
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
    trainer = _trainer(net, codec="onebit")
    with pytest.raises(hp.InvalidArgument, match="has no shape yet"):
        hp.codec_states(trainer)
    with pytest.raises(hp.InvalidArgument, match="takes a DistributedTrainer"):
        hp.codec_states(net)


def test_shapes_have_to_be_known() -> None:
    run(_too_early, 1)

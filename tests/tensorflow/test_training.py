# SPDX-License-Identifier: Apache-2.0
"""Tape and optimizer keep replicas identical in eager code, in tf.function, in graphs and in model.fit()."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow as hp
import hipress.tensorflow.keras as hpk
from tests.tensorflow.models import batch, fingerprint, local_average, loss, mlp
from tests.tensorflow.ranks import outcomes, run


def _tape_steps(codec: str, topology: str, traced: bool) -> list[str]:
    hp.init()
    model = mlp(seed=hp.rank())
    hp.broadcast_variables(model.variables, root_rank=0)

    def step(inputs: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            value = loss(model, inputs, labels)
        tape = hp.DistributedGradientTape(tape, codec=codec, topology=topology, min_compress_bytes=0)
        variables = model.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(value, variables), strict=True):
            variable.assign_sub(0.1 * gradient)

    step = tf.function(step) if traced else step
    seen = []
    for number in range(10):
        step(*batch(hp.rank(), number))
        seen.append(fingerprint(model.variables))
    return seen


@pytest.mark.parametrize("traced", [True, False], ids=["tf.function", "eager"])
@pytest.mark.parametrize(("codec", "topology"), [("none", "ring"), ("onebit", "ps"), ("dgc(ratio=0.05)", "ring")])
def test_replicas_are_identical_after_every_step(codec: str, topology: str, traced: bool) -> None:
    by_rank = run(_tape_steps, 3, codec, topology, traced)
    assert all(seen == by_rank[0] for seen in by_rank)
    assert len(set(by_rank[0])) == 10


def _averaged(how: str) -> bool:
    hp.init()
    model = mlp()

    def gradients() -> list[Any]:
        with tf.GradientTape() as tape:
            value = loss(model, *batch(hp.rank(), 0))
        return hp.DistributedGradientTape(tape).gradient(value, model.trainable_variables)

    found = tf.function(gradients)() if how == "tf.function" else gradients()
    expected = local_average(hp.size(), 0, model)
    return all(np.allclose(f, e, atol=1e-6) for f, e in zip(found, expected, strict=True))


@pytest.mark.parametrize("how", ["tf.function", "eager"])
def test_the_tapes_gradients_are_averages(how: str) -> None:
    assert run(_averaged, 3, how) == [True] * 3


def _fit(codec: str, passes: int, codecs: tuple[str, ...] = ()) -> tuple[str, float, int]:
    hpk.init()
    model = mlp(seed=hp.rank())
    optimizer = hpk.DistributedOptimizer(
        keras.optimizers.SGD(0.05, momentum=0.9), codec=codec, backward_passes_per_step=passes
    )
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    samples = [batch(hp.rank(), number) for number in range(12)]
    inputs, labels = (tf.concat(parts, 0) for parts in zip(*samples, strict=True))
    options: dict[str, Any] = {"batch_size": 8, "shuffle": False, "verbose": 0}
    callbacks = [hpk.callbacks.BroadcastGlobalVariablesCallback(0), hpk.callbacks.MetricAverageCallback()]
    history = model.fit(inputs, labels, epochs=3, callbacks=callbacks, **options)
    for other in codecs:
        optimizer.set_codec(other)
        history = model.fit(inputs, labels, epochs=2, callbacks=callbacks[1:], **options)
    return fingerprint(model.variables), history.history["loss"][-1], int(optimizer.iterations)


@pytest.mark.parametrize("codec", ["none", "onebit"])
def test_fit_trains_identical_replicas(codec: str) -> None:
    results = run(_fit, 2, codec, 1)
    assert results[0] == results[1]  # also the loss is equal, because it is averaged
    assert results[0][1] < 1.0
    assert results[0][2] == 36


def test_gradients_of_several_passes_are_applied_at_once() -> None:
    results = run(_fit, 2, "none", 4)
    assert results[0] == results[1]
    assert results[0][2] == 9


@pytest.mark.thorough
def test_another_codec_needs_no_new_trace() -> None:
    results = run(_fit, 2, "onebit", 1, ("fp16", "graddrop(ratio=0.1)", "none"))
    assert results[0] == results[1]


def _sums_of_constants(first: str, second: str) -> list[float]:
    hp.init()
    variable = tf.Variable(tf.zeros(4096), name="w")
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(1.0), codec=first, min_compress_bytes=0)

    @tf.function
    def step(gradient: Any) -> None:
        optimizer.apply([gradient], [variable])

    generator = np.random.default_rng(hp.rank())
    total = np.zeros(4096)
    for number in range(6):
        if number == 5:
            optimizer.set_codec(second)
        gradient = generator.standard_normal(4096, np.float32)
        total += np.asarray(hp.allreduce(tf.constant(gradient), name="total"))
        step(tf.constant(gradient))
    return [float(np.abs(variable.numpy() + total).max()), float(np.abs(total).max())]


def test_what_a_codec_held_back_joins_the_next_step_when_the_codec_is_replaced() -> None:
    # graddrop keeps most values as residuals. Codec "none" sends them all in the last step.
    for difference, largest in run(_sums_of_constants, 2, "graddrop(ratio=0.01)", "none"):
        assert difference < 1e-4 * largest


def _failed_step() -> list[float]:
    hp.init(timeout=6)
    variables = [tf.Variable(tf.ones(4), name="reached"), tf.Variable(tf.ones(4), name="missing")]
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(1.0))

    @tf.function
    def step(second: bool) -> None:
        optimizer.apply([variables[0] * 1.0, variables[1] * 1.0 if second else None], variables)

    step(True)
    if hp.rank() == 1:
        step(False)  # rank 0 waits for this rank's second gradient
    else:
        with pytest.raises(tf.errors.OpError):
            step(True)
    return [float(variables[0][0]), float(variables[1][0]), float(optimizer.iterations)]


def test_a_step_that_fails_changes_no_variable() -> None:
    assert run(_failed_step, 2)[0] == [0.0, 0.0, 1.0]


def _loss_scaling() -> list[float]:
    hp.init()
    variable = tf.Variable(tf.zeros(4), name="w")
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=8.0)
    optimizer = hp.DistributedOptimizer(scaled)

    @tf.function
    def step(gradient: Any) -> None:
        optimizer.apply([gradient], [variable])

    seen = []
    for number in range(2):
        value = np.inf if number == 0 and hp.rank() == 1 else 8.0
        step(tf.fill([4], tf.constant(value, tf.float32)))
        seen += [float(variable[0]), float(optimizer.dynamic_scale)]
    return seen


def test_all_ranks_skip_a_step_in_which_one_has_a_gradient_that_is_not_finite() -> None:
    for seen in run(_loss_scaling, 2):
        assert seen == [0.0, 4.0, -2.0, 4.0]


def _sparse(as_dense: bool) -> list[list[float]]:
    hp.init()
    table = tf.Variable(tf.zeros((6, 2)), name="table")
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(1.0), sparse_as_dense=as_dense)

    @tf.function
    def step(rows: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, rows))
        optimizer.apply(tape.gradient(loss, [table]), [table])

    step(tf.constant([hp.rank(), 3, 5][: hp.rank() + 2]))  # the ranks have different numbers of rows
    return table.numpy()[:, 0].tolist()


@pytest.mark.parametrize("as_dense", [False, True], ids=["gathered", "as dense"])
def test_sparse_gradients(as_dense: bool) -> None:
    assert run(_sparse, 2, as_dense) == [[-0.5, -0.5, 0.0, -1.0, 0.0, -0.5]] * 2


def _local_layers() -> list[float]:
    hp.init()
    shared, local = (keras.layers.Dense(1, use_bias=False, kernel_initializer="ones") for _ in range(2))
    for layer in (shared, local):
        layer.build((None, 1))
    optimizer = hp.PartialDistributedOptimizer(keras.optimizers.SGD(1.0), local_layers=local)
    variables = [shared.kernel, local.kernel]
    optimizer.apply([tf.fill((1, 1), 2.0 * hp.rank())] * 2, variables)
    return [float(variable[0, 0]) for variable in variables]


def test_layers_may_stay_a_ranks_own() -> None:
    # A local layer's gradient is divided by the number of ranks, like an average with zeros.
    assert run(_local_layers, 2) == [[0.0, 1.0], [0.0, 0.0]]


def _changed_replica() -> str:
    hp.init(check_replicas=2, timeout=5)
    variables = [tf.Variable(tf.zeros(3), name="v"), tf.Variable(tf.zeros(3), name="w")]
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(1.0))

    @tf.function
    def step() -> None:
        optimizer.apply([tf.ones(3), tf.ones(3)], variables)

    for _ in range(3):
        step()
    if hp.rank() == 1:
        variables[1].assign_add(tf.ones(3))
    try:
        step()
    except tf.errors.OpError as error:
        return str(error)
    return "nothing"


def test_replicas_that_differ_are_found() -> None:
    for told in run(_changed_replica, 2):
        assert "after step 4" in told
        assert "'w' is not the same on all ranks" in told


def _lost_rank() -> str:
    hp.init(timeout=6)
    variable = tf.Variable(tf.zeros(10), name="w")

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(variable * variable)
        (gradient,) = hp.DistributedGradientTape(tape).gradient(value, [variable])
        variable.assign_sub(gradient)

    step()
    if hp.rank() == 1:
        return ""
    try:
        step()
    except tf.errors.OpError as error:
        own = hp.own_error(error)
        return f"{type(error).__name__} {type(own).__name__} {own}"
    return "nothing"


def test_a_rank_that_does_not_take_part_is_named() -> None:
    told = run(_lost_rank, 2)[0]
    assert "rank 1" in told
    assert "'w'" in told
    assert told.startswith(("DeadlineExceededError Timeout", "UnavailableError PeerLost"))


def _other_variables() -> None:
    hp.init()
    variables = [tf.Variable(tf.zeros(3 + hp.rank()), name="w")]
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(1.0))
    optimizer.apply([tf.zeros(3 + hp.rank())], variables)


def test_different_variables_are_a_mismatch_on_every_rank() -> None:
    for outcome in outcomes(_other_variables, 2):
        assert isinstance(outcome, hp.Mismatch)
        assert "'w'" in str(outcome)


def _session() -> list[float]:
    hp.init()
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable("w", initializer=tf.constant([1.0 + hp.rank()] * 3))
        optimizer = hp.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1))
        train = optimizer.minimize(tf.reduce_sum(variable * float(1 + hp.rank())))
        start = hp.broadcast_global_variables(1)
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(start)
            session.run(train)
            return session.run(variable).tolist()


def test_graphs_and_sessions_of_tensorflow_1() -> None:
    for values in run(_session, 2):
        assert values == pytest.approx([2.0 - 0.1 * 1.5] * 3)


def _saved(folder: str) -> tuple[str, str, bool]:
    hpk.init()
    model = mlp()
    model.compile(hpk.DistributedOptimizer(keras.optimizers.Adam(0.01)), "mse")
    inputs = tf.ones((8, 16))
    model.fit(inputs, tf.zeros((8, 4)), verbose=0)
    path = f"{folder}/{hp.rank()}.keras"
    model.save(path)
    plain = keras.models.load_model(path)
    again = hpk.load_model(path, codec="fp16")
    again.fit(inputs, tf.zeros((8, 4)), verbose=0)
    return type(plain.optimizer).__name__, fingerprint(again.variables), hasattr(again.optimizer, "set_codec")


def test_a_saved_model_loads_with_and_without_hipress(tmp_path: Any) -> None:
    results = run(_saved, 2, str(tmp_path))
    assert results[0] == results[1]
    assert results[0][0] == "Adam"
    assert results[0][2]

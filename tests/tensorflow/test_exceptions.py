# SPDX-License-Identifier: Apache-2.0
"""If an exception ends a step on one rank, either all ranks get an error within a step or none does; replicas never
differ."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import keras
import pytest
import tensorflow as tf

import hipress.tensorflow as hp
from tests.frameworks.faulty_rank import (
    FAULTY,
    Boom,
    Fault,
    Outcome,
    check_that_all_steps_were_taken,
    check_that_the_missed_update_ended_all,
    check_that_the_open_step_ended_all,
    check_that_the_others_name_who_left,
    check_that_the_update_ended_all,
    outcomes_of,
    run_steps,
)
from tests.tensorflow.models import batch, fingerprint, loss, mlp
from tests.tensorflow.ranks import outcomes, run


class Sgd(keras.optimizers.SGD):
    """Updates some variables and then raises."""

    armed = False
    guard: Any = None  # in a graph: a variable; an update fails unless it is 0

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        if Sgd.guard is not None and variable.shape == (4,):
            gradient = _assert_fine(Sgd.guard, gradient, "boom in update")
        super().update_step(gradient, variable, learning_rate)
        if Sgd.armed:
            Sgd.armed = False
            raise Boom("in step")


def _assert_fine(armed: tf.Variable, values: Any, message: str) -> Any:
    with tf.control_dependencies([tf.debugging.Assert(tf.equal(armed, 0), [message])]):
        return tf.identity(values)


def _step(way: str, site: str, model: Any, optimizer: Any, armed: tf.Variable) -> Any:
    """One training step as a function of inputs and labels. A place in a graph raises if `armed` is not 0."""
    variables = model.trainable_variables
    boundary = model.layers[1]

    @tf.custom_gradient
    def raising(values: Any) -> Any:
        def backward(upstream: Any) -> Any:
            return _assert_fine(armed, upstream, "boom in backward")

        return tf.identity(values), backward

    def computed(inputs: Any, labels: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            values = _assert_fine(armed, inputs, "boom in forward") if site == "forward" else inputs
            hidden = boundary(model.layers[0](values))
            if site == "backward":
                hidden = raising(hidden)
            outputs = model.layers[2](hidden)
            value = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, outputs, from_logits=True))
        return value, tape

    def step(inputs: Any, labels: Any) -> Any:
        value, tape = computed(inputs, labels)
        if "tape" in way:
            tape = hp.DistributedGradientTape(tape)
        gradients = tape.gradient(value, variables)
        if site == "update":
            # The error comes after the gradients and before the update of one variable.
            gradients[0] = _assert_fine(armed, gradients[0], "boom in update")
        if site == "between" and int(armed) and tf.executing_eagerly():
            raise Boom("in between")
        optimizer.apply(gradients, variables)
        return value

    return step if "eager" in way else tf.function(step)


def _train(way: str, site: str, action: str) -> Outcome:
    hp.init()
    model = mlp()
    optimizer: Any = Sgd(0.1, momentum=0.9)
    if "tape" not in way:
        optimizer = hp.DistributedOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    armed = tf.Variable(0)
    Sgd.guard = armed if site == "guarded" else None
    take_step = _step(way, site, model, optimizer, armed)
    fault = Fault(site)

    def step(number: int) -> None:
        fault.raise_at("loader", number)
        Sgd.armed = fault.comes(number, "step")
        armed.assign(int(fault.comes(number)))
        take_step(*batch(hp.rank(), number))

    return run_steps(
        step,
        lambda: fingerprint(model.variables),
        hp.shutdown,
        action=action,
        caught=(Boom, tf.errors.InvalidArgumentError),
        raised=(tf.errors.OpError,),
        own_error=lambda error: hp.own_error(error) if isinstance(error, tf.errors.OpError) else None,
    )


def _outcomes(way: str, site: str, action: str) -> list[Outcome]:
    return outcomes_of(run, _train, way, site, action)


@pytest.mark.parametrize(
    ("way", "site"),
    [
        ("eager tape", "loader"),
        ("eager tape", "forward"),
        ("eager tape", "backward"),
        ("eager optimizer", "forward"),
        ("graph tape", "loader"),
        ("graph tape", "forward"),
    ],
)
def test_what_raises_before_a_gradient_was_handed_over_may_be_repeated(way: str, site: str) -> None:
    check_that_all_steps_were_taken(_outcomes(way, site, "repeat"))


@pytest.mark.parametrize("action", ["go on", "repeat", "end"])
@pytest.mark.parametrize("way", ["graph tape", "graph optimizer"])
def test_a_graph_that_fails_in_backward_ends_all(way: str, action: str) -> None:
    check_that_the_open_step_ended_all(
        _outcomes(way, "backward", action),
        action,
        "raised InvalidArgumentError: ",
        "boom in backward",
        "of 6 gradients of step 2 had been handed over",
    )


@pytest.mark.parametrize("action", ["go on", "repeat"])
@pytest.mark.parametrize(
    ("way", "site"),
    [
        ("graph optimizer", "guarded"),
        ("eager tape", "between"),
        ("graph tape", "update"),
        ("eager tape", "update"),
        ("eager tape", "step"),
    ],
)
def test_a_rank_that_misses_an_update_ends_all(way: str, site: str, action: str) -> None:
    check_that_the_missed_update_ended_all(_outcomes(way, site, action))


@pytest.mark.parametrize("action", ["go on", "repeat", "end", "raise"])
def test_an_update_of_the_distributed_optimizer_that_raises_ends_all(action: str) -> None:
    check_that_the_update_ended_all(_outcomes("eager optimizer", "step", action), action, "step in apply()")


@pytest.mark.parametrize("site", ["loader", "forward"])
def test_a_rank_that_ends_early_is_named(site: str) -> None:
    check_that_the_others_name_who_left(_outcomes("graph optimizer", site, "end"))


def _plain_variables() -> list[str]:
    hp.init()
    variable = tf.Variable([1.0, 2.0], name="w")
    for number in range(3):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(variable**2)
        (gradient,) = hp.DistributedGradientTape(tape).gradient(value, [variable])
        if not (number == 1 and hp.rank() == FAULTY):
            variable.assign_sub(0.1 * gradient)
    return []


def test_a_missed_update_of_a_variable_without_keras_ends_all() -> None:
    for outcome in outcomes(_plain_variables, 2):
        assert isinstance(outcome, hp.Mismatch)
        assert "rank 1 did not make an update of 'w'" in str(outcome)


def _fit(raises: bool) -> tuple[str, str, str]:
    hp.init()
    model = mlp()
    armed = tf.Variable(0, trainable=False)

    def criterion(labels: Any, outputs: Any) -> Any:
        values = keras.losses.sparse_categorical_crossentropy(labels, outputs, from_logits=True)
        return _assert_fine(armed, values, "boom in forward")

    class Arm(keras.callbacks.Callback):
        def on_train_batch_begin(self, number: int, logs: Any = None) -> None:
            armed.assign(int(raises and number == 2 and hp.rank() == FAULTY))

    model.compile(hp.DistributedOptimizer(keras.optimizers.SGD(0.1)), criterion)
    samples = [batch(hp.rank(), number) for number in range(6)]
    inputs, labels = (tf.concat(parts, 0) for parts in zip(*samples, strict=True))
    options: dict[str, Any] = {"batch_size": 8, "shuffle": False, "verbose": 0, "callbacks": [Arm()]}
    try:
        try:
            model.fit(inputs, labels, **options)
        except tf.errors.InvalidArgumentError:
            raises = False  # the script begins the epoch again
            model.fit(inputs, labels, **options)
        hp.shutdown()
    except (tf.errors.OpError, hp.HipressError) as error:
        own = hp.own_error(error) if isinstance(error, tf.errors.OpError) else error
        return fingerprint(model.variables), type(own).__name__, str(own)
    return fingerprint(model.variables), "", ""


def test_a_fit_that_raises_on_a_rank_and_is_begun_again_ends_when_another_is_done() -> None:
    others, faulty = run(_fit, 2, True)
    assert others[0] == faulty[0]
    assert others[1:] == ("", "")
    assert faulty[1] == "PeerLost"
    assert "rank 0 has left the job (it called shutdown() after 6 steps)" in faulty[2]


def _variables_added() -> list[str]:
    hp.init()
    model, more = mlp(), mlp(seed=hp.rank(), hidden=30)
    hp.broadcast_variables(more.variables, root_rank=0)
    seen = []
    for number in range(4):
        models = [model] if number < 2 else [model, more]
        variables = [variable for each in models for variable in each.trainable_variables]
        with tf.GradientTape() as tape:
            value = sum(loss(each, *batch(hp.rank(), number)) for each in models)
        gradients = hp.DistributedGradientTape(tape).gradient(value, variables)
        # A Keras optimizer takes only the variables with which it was built, so each step makes a new optimizer.
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.apply(gradients, variables)
        seen.append(fingerprint(variables))
    return seen


def test_variables_that_are_added_are_synchronised() -> None:
    results = run(_variables_added, 2)
    assert results[0] == results[1]
    assert len(set(results[0])) == 4


def _of_an_engine_before() -> None:
    hp.init()
    model = mlp()
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(0.1))
    variables = model.trainable_variables

    def step() -> None:
        with tf.GradientTape() as tape:
            value = loss(model, *batch(0, 0))
        optimizer.apply(tape.gradient(value, variables), variables)

    step()
    hp.shutdown()
    hp.init()
    with pytest.raises(hp.NotInitialized, match="made before"):
        step()
    with pytest.raises(hp.NotInitialized, match="made before the last shutdown"):
        optimizer.set_codec("fp16")


def test_an_optimizer_of_an_engine_that_was_shut_down_says_so() -> None:
    run(_of_an_engine_before, 1)


def _pickled() -> None:
    hp.init()
    model = mlp()
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    optimizer.build(model.trainable_variables)
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(hp.Unsupported, match="cannot be copied"):
            copied(optimizer)
    plain = pickle.loads(pickle.dumps(optimizer))
    assert type(plain) is keras.optimizers.SGD
    assert plain.momentum == 0.9


def test_a_pickled_optimizer_is_the_plain_one_and_a_copy_is_refused() -> None:
    run(_pickled, 1)

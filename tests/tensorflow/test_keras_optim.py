# SPDX-License-Identifier: Apache-2.0
"""Every step of Keras's OneBitAdam and DGCSGD equals the papers' step, replayed in NumPy; models can be saved, and
wrong use is refused."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (requirements/tensorflow.txt)")
keras = pytest.importorskip("keras")

import hipress.tensorflow  # noqa: E402
import hipress.tensorflow.keras as hp  # noqa: E402
from hipress import errors  # noqa: E402
from hipress.adapter.objects import allgather_object  # noqa: E402
from hipress.tensorflow.keras.optim import DGC_RATIOS, DGCSGD, OneBitAdam, Warmup  # noqa: E402
from tests.adapter.optim import replays  # noqa: E402
from tests.tensorflow import models  # noqa: E402
from tests.tensorflow.ranks import run  # noqa: E402
from tests.tiers import thorough  # noqa: E402

pytestmark = pytest.mark.slow


def _adam(**options: Any) -> OneBitAdam:
    given = {
        "learning_rate": replays.ADAM["lr"],
        "beta_2": replays.ADAM["beta_2"],
        "weight_decay": replays.ADAM["weight_decay"],
        "freeze_step": replays.FREEZE,
    }
    return OneBitAdam(**{**given, **options})


def _sgd(**options: Any) -> DGCSGD:
    given = {
        "learning_rate": replays.SGD["lr"],
        "weight_decay": replays.SGD["weight_decay"],
        "ratio": replays.SGD["ratio"],
        "clip_norm": replays.SGD["clip_norm"],
        "nesterov": True,
        "warmup": Warmup(5, ratios=DGC_RATIOS),
    }
    return DGCSGD(**{**given, **options})


_MAKERS = {"adam": _adam, "sgd": _sgd}


def _variables() -> list[Any]:
    return [keras.Variable(value, name=name) for name, value in replays.start().items()]


def _gradients(variables: list[Any], step: int) -> list[Any]:
    return [tf.constant(replays.gradient(each.name, each.numpy(), hp.rank(), step)) for each in variables]


def _history(kind: str, traced: bool) -> list[replays.Values]:
    hp.init()
    variables, optimizer = _variables(), _MAKERS[kind]()
    optimizer.build(variables)

    def apply(*gradients: Any) -> None:
        optimizer.apply(gradients, variables)

    call = tf.function(apply) if traced else apply
    history = []
    for step in range(1, replays.STEPS + 1):
        call(*_gradients(variables, step))
        assert int(optimizer.iterations) == step
        history.append({each.name: each.numpy() for each in variables})
    return history


@pytest.mark.parametrize("traced", [False, True], ids=["at once", "in a graph"])
def test_onebit_adam_takes_the_steps_of_the_paper(traced: bool) -> None:
    replays.check(run(_history, 2, "adam", traced), replays.onebit_adam(2))


def test_dgc_sgd_takes_the_steps_of_the_paper() -> None:
    ratios = [*DGC_RATIOS, *[replays.SGD["ratio"]] * (replays.STEPS - 5)]
    replays.check(run(_history, 2, "sgd", False), replays.dgc_sgd(2, ratios))


def _fitted(kind: str, folder: str) -> tuple[list[str], bool]:
    """The fingerprints after 3 steps, and after 3 more steps of the saved and loaded model; and whether loading kept
    the optimizer's variables."""
    hp.init()
    model = models.mlp(seed=0, hidden=64)
    model.compile(_MAKERS[kind](), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    inputs, labels = models.batch(hp.rank(), 0, size=24)
    model.fit(inputs, labels, batch_size=8, shuffle=False, verbose=0)
    before = [each.numpy() for each in model.optimizer.variables]
    fingerprints = [models.fingerprint(model.trainable_variables)]
    start = hp.callbacks.BroadcastGlobalVariablesCallback(0)
    start.set_model(model)
    start.on_train_begin()  # must not change each rank's own states
    own = b"".join(each.numpy().tobytes() for each in model.optimizer.own_variables)
    assert len(set(allgather_object(own))) == (2 if kind == "sgd" else 1)
    path = f"{folder}/{hp.rank()}.keras"
    model.save(path)
    model = keras.models.load_model(path)
    assert type(model.optimizer) is type(_MAKERS[kind]())
    assert model.optimizer.get_config() == _MAKERS[kind]().get_config()
    kept = all(np.array_equal(a, b) for a, b in zip(before, model.optimizer.variables, strict=True))
    model.fit(inputs, labels, batch_size=8, shuffle=False, verbose=0)
    assert int(model.optimizer.iterations) == 6
    return [*fingerprints, models.fingerprint(model.trainable_variables)], kept


@pytest.mark.parametrize("kind", _MAKERS)
def test_a_model_is_fitted_and_saved_and_goes_on(kind: str, tmp_path: Any) -> None:
    (one, kept), (other, _) = run(_fitted, 2, kind, str(tmp_path))
    assert kept
    assert one == other
    assert len(set(one)) == 2


def _bytes_of_steps(kind: str, folder: str, way: str, saved_at: int) -> list[int]:
    """The bytes that this rank sends in each step; from what was saved after step `saved_at` on. Either way the
    optimizer was saved with the variables: in a model, or in a checkpoint."""
    hp.init()
    path = f"{folder}/{kind} {{}} {hp.rank()}"
    model = models.mlp(seed=0, hidden=64)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if saved_at and way == "model":
        model = keras.models.load_model(path.format(saved_at) + ".keras")
    else:
        model.compile(_MAKERS[kind](), loss)
        model.optimizer.build(model.trainable_variables)
        checkpoint = tf.train.Checkpoint(model=model)
        if saved_at:
            checkpoint.read(path.format(saved_at)).assert_consumed()
    assert int(model.optimizer.iterations) == saved_at
    sent = []
    for step in range(saved_at + 1, 9):
        before = hp.counters()["bytes_sent"]
        model.train_on_batch(*models.batch(hp.rank(), step))
        sent.append(hp.counters()["bytes_sent"] - before)
        if way == "model":
            model.save(path.format(step) + ".keras")
        else:
            checkpoint.write(path.format(step))
    return sent


@pytest.mark.parametrize("way", ["model", thorough("checkpoint")])
@pytest.mark.parametrize("kind", _MAKERS)
def test_a_fresh_job_goes_on_in_the_phase_in_which_the_optimizer_was_saved(kind: str, way: str, tmp_path: Any) -> None:
    """The steps before the variance is frozen, and the ratios of the warm-up."""
    straight = run(_bytes_of_steps, 2, kind, str(tmp_path), way, 0)
    assert straight[0][1] > 1.5 * straight[0][7]
    for saved_at in (2, 4) if way == "model" else (3,):
        resumed = run(_bytes_of_steps, 2, kind, str(tmp_path), way, saved_at)
        assert resumed == [each[saved_at:] for each in straight]


def _refusals() -> None:
    variables = _variables()
    with pytest.raises(errors.NotInitialized):
        _adam().build(variables)
    hp.init()
    for kind, options, message in [
        ("adam", {"freeze_step": 0}, "freeze_step=0: give 1 or more"),
        ("adam", {"beta_1": 1.0}, "beta_1=1.0"),
        ("adam", {"epsilon": float("nan")}, "epsilon=nan"),
        ("adam", {"weight_decay": -1.0}, "weight_decay=-1.0"),
        ("sgd", {"ratio": 0.0}, "ratio=0.0"),
        ("sgd", {"momentum": 1.0}, "momentum=1.0"),
        ("sgd", {"warmup": Warmup(3, "onebit")}, "DGCSGD has no codec"),
    ]:
        with pytest.raises(errors.InvalidArgument, match=message):
            _MAKERS[kind](**options)
    for options, message in [({"codec": "unheard"}, "unheard"), ({"codec_for": {"strange": "fp16"}}, "'strange'")]:
        with pytest.raises(errors.InvalidArgument, match=message):
            _adam(**options).build(variables)
    with pytest.raises(errors.Unsupported, match="'half' is of type float16"):
        _adam().build([keras.Variable(np.zeros(3, np.float16), dtype="float16", name="half")])
    with pytest.raises(errors.DuplicateName, match="'large'"):
        _adam().build([variables[0], keras.Variable(np.zeros(3, np.float32), name="large")])
    optimizer = _adam(freeze_step=1)
    optimizer.build(variables)
    before = [each.numpy() for each in (*variables, *optimizer.variables)]
    unused = [None if each.name == "odd" else tf.ones(each.shape) for each in variables]
    with pytest.raises(errors.InvalidArgument, match="'odd' has had no gradient in the first 1 steps"):
        optimizer.apply(unused, variables)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'odd' has had no gradient in the first 1 steps"):
        tf.function(lambda: optimizer.apply(unused, variables))()
    with pytest.raises(errors.InvalidArgument, match="built for 4 variables"):
        optimizer.apply(unused[:2], variables[:2])
    for one, other in zip(before, (*variables, *optimizer.variables), strict=True):
        assert np.array_equal(one, other)


def test_what_makes_no_step_is_refused_and_changes_nothing() -> None:
    run(_refusals, 1)


def _step_after_a_tape(optimizer: Any, variables: list[Any]) -> None:
    with tf.GradientTape() as tape:
        loss = tf.add_n([tf.reduce_sum(each.value) for each in variables])
    tape = hipress.tensorflow.DistributedGradientTape(tape)
    optimizer.apply(tape.gradient(loss, [each.value for each in variables]), variables)


def _after_a_tape() -> None:
    hp.init()
    for traced in (False, True):
        for kind in _MAKERS:
            variables, optimizer = _variables(), _MAKERS[kind]()
            optimizer.build(variables)
            step = functools.partial(_step_after_a_tape, optimizer, variables)
            with pytest.raises(errors.InvalidArgument, match="has averaged these gradients"):
                (tf.function(lambda step=step: step()) if traced else step)()


def test_gradients_of_a_distributed_tape_are_refused() -> None:
    run(_after_a_tape, 2)


def _differing() -> list[bool]:
    """By optimizer: whether every variable contains a NaN on all ranks after the gradients of rank 1 were NaN."""
    hp.init()
    with pytest.raises(errors.Mismatch, match="the options"):
        _adam(freeze_step=2 + hp.rank()).build(_variables())
    with pytest.raises(errors.Mismatch, match="the parameters"):
        _sgd().build(_variables()[hp.rank() :])
    results = []
    for kind in _MAKERS:
        variables, optimizer = _variables(), _MAKERS[kind]()
        for step in range(1, 7):
            optimizer.apply(_gradients(variables, step), variables)
        optimizer.apply([tf.fill(each.shape, np.float32("nan") if hp.rank() else 1.0) for each in variables], variables)
        values = [each.numpy() for each in variables]
        assert len(set(allgather_object(b"".join(each.tobytes() for each in values)))) == 1
        results.append(all(np.isnan(each).any() for each in values))
    return results


def test_ranks_that_differ_all_learn_it_and_a_nan_reaches_all() -> None:
    assert run(_differing, 2) == [[True, True], [True, True]]


def _spoiled() -> list[str]:
    hp.init(check_replicas=2)
    texts = []
    for traced in (False, True):
        for kind in _MAKERS:
            variables, optimizer = _variables(), _MAKERS[kind]()
            optimizer.build(variables)
            step = functools.partial(optimizer.apply, [tf.ones(each.shape) for each in variables], variables)
            step = tf.function(step) if traced else step
            for _ in range(3):
                step()
            if hp.rank() == 1:
                variables[1].assign_add(tf.ones(variables[1].shape))
            with pytest.raises(tf.errors.OpError if traced else errors.Mismatch) as caught:
                step()
            texts.append(f"{variables[1].path}: {caught.value}")
    return texts


def test_a_replica_that_differs_is_found_on_all_ranks() -> None:
    for texts in run(_spoiled, 2):
        for text in texts:
            assert f"after step 4 parameter '{text.partition(':')[0]}' is not the same on all ranks" in text

# SPDX-License-Identifier: Apache-2.0
"""If an exception ends a step on one rank, either all ranks get an error within a step or none does; replicas never
differ."""

from __future__ import annotations

import contextlib
import copy
import pickle
import re
import time
from typing import Any

import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress.mxnet as hp  # noqa: E402
from tests.frameworks.faulty_rank import (  # noqa: E402
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
from tests.mxnet.models import batch, fingerprint, mlp  # noqa: E402
from tests.mxnet.ranks import run  # noqa: E402

BATCH = 8


@mx.operator.register("raising")
class Raising(mx.operator.CustomOpProp):
    """The identity function; its backward raises while `armed` is set, after `pause` seconds."""

    armed, pause = False, 0.0

    def __init__(self) -> None:
        super().__init__(need_top_grad=True)

    def create_operator(self, context: Any, shapes: Any, dtypes: Any) -> Any:
        return _Raising()


class _Raising(mx.operator.CustomOp):
    def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        if Raising.armed:
            Raising.armed = False
            time.sleep(Raising.pause)
            raise Boom("in backward")
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.optimizer.register
class RaisingSgd(mx.optimizer.SGD):
    """Updates one parameter and then raises."""

    armed = False

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        super().update_multi_precision(index, weight, grad, state)
        if RaisingSgd.armed:
            RaisingSgd.armed = False
            raise Boom("in update")


def _trainer(way: str, net: Any) -> Any:
    optimizer = RaisingSgd(learning_rate=0.1, momentum=0.9)
    optimizer.aggregate_num = 1
    if way == "kvstore":
        return mx.gluon.Trainer(net.collect_params(), optimizer, kvstore="hipress", update_on_kvstore=False)
    return hp.DistributedTrainer(net.collect_params(), optimizer)


def _train(way: str, site: str, action: str) -> Outcome:
    hp.init()
    net = mlp()
    trainer = _trainer(way, net)
    fault = Fault(site)

    def step(number: int) -> None:
        fault.raise_at("loader", number)
        inputs, labels = batch(hp.rank(), number)
        with mx.autograd.record():
            hidden = net[1](net[0](inputs))
            outputs = net[2](mx.nd.Custom(hidden, op_type="raising"))
            loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(outputs, labels)
            fault.raise_at("forward", number)
        Raising.armed = fault.comes(number, "backward")
        loss.backward()
        RaisingSgd.armed = fault.comes(number, "update")
        if way == "parts":
            trainer.allreduce_grads()
            fault.raise_at("between", number)
            trainer.update(BATCH)
        else:
            trainer.step(BATCH)
        fingerprint(net)  # waits for the parameters

    outcome = run_steps(step, lambda: fingerprint(net), hp.shutdown, action=action, caught=(Boom, mx.MXNetError))
    if outcome[1]:
        with contextlib.suppress(mx.MXNetError, hp.HipressError):
            mx.nd.waitall()  # without this the next test would get the error
    return outcome


def _outcomes(way: str, site: str, action: str) -> list[Outcome]:
    return outcomes_of(run, _train, way, site, action)


@pytest.mark.parametrize("way", ["trainer", "kvstore"])
@pytest.mark.parametrize("site", ["loader", "forward"])
def test_what_raises_before_a_gradient_was_handed_over_may_be_repeated(way: str, site: str) -> None:
    check_that_all_steps_were_taken(_outcomes(way, site, "repeat"))


@pytest.mark.parametrize("action", ["go on", "repeat", "end"])
def test_a_gradient_that_mxnet_could_not_compute_ends_all(action: str) -> None:
    check_that_the_open_step_ended_all(_outcomes("trainer", "backward", action), action, "of the 6 gradients")


def _all_raise() -> str:
    """The error of this rank's first step after one whose backward failed on all ranks. Nothing waits for a value."""
    hp.init()
    net = mlp()
    trainer = _trainer("trainer", net)
    Raising.armed = True
    end = time.monotonic() + 60  # on a busy machine MXNet computes long after the call
    try:
        number = 0
        while time.monotonic() < end:
            inputs, _ = batch(hp.rank(), number)
            with mx.autograd.record():
                loss = mx.nd.Custom(net(inputs), op_type="raising").sum()
            loss.backward()
            trainer.step(BATCH)
            time.sleep(0.02)
            number += 1
    except hp.HipressError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        Raising.armed = False
        with contextlib.suppress(mx.MXNetError, hp.HipressError):
            mx.nd.waitall()
    return ""


def test_an_operator_that_fails_on_all_ranks_is_named_on_each_with_mxnets_text() -> None:
    for rank, text in enumerate(run(_all_raise, 2)):
        assert text.startswith(f"Mismatch: rank {rank} raised MXNetError: ")
        assert "kCustomOpBackward" in text
        # MXNet gives them up one by one, and the next step tells how many these are by then.
        assert re.search(r"did not compute [1-6] of the 6 gradients of step 0", text)
        assert "caught" not in text


def _one_raises(ends: bool) -> str:
    """The error of each rank after a backward of rank FAULTY has raised in step 0. Until then both ranks have pushed
    three steps, of which none waits for a value. `ends`: the faulty rank reads a value, and ends with MXNet's error."""
    hp.init()
    net = mlp()
    trainer = _trainer("trainer", net)
    faulty = hp.rank() == FAULTY
    Raising.armed, Raising.pause = faulty, 0.5

    def step(number: int) -> None:
        with mx.autograd.record():
            outputs = net(batch(hp.rank(), number)[0])
            loss = (mx.nd.Custom(outputs, op_type="raising") if faulty else outputs).sum()
        loss.backward()
        trainer.step(BATCH)

    try:
        for number in range(3):
            step(number)
        time.sleep(1.0 if faulty else 2.0)  # the others learn of it before their next step
        if not (ends and faulty):
            step(3)
        fingerprint(net)
    except (mx.MXNetError, hp.HipressError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        Raising.armed, Raising.pause = False, 0.0
        with contextlib.suppress(mx.MXNetError, hp.HipressError):
            mx.nd.waitall()
        hp.shutdown()
    return ""


@pytest.mark.parametrize("ends", [False, True])
def test_a_rank_whose_gradients_were_computed_is_told_which_other_rank_raised(ends: bool) -> None:
    """Also if it has pushed steps that MXNet does not begin, because the one before them has failed."""
    healthy, faulty = run(_one_raises, 2, ends, HIPRESS_TIMEOUT="60")
    assert healthy.startswith("PeerLost: " if ends else "Mismatch: ")
    for text in [healthy] if ends else [healthy, faulty]:
        assert f"rank {FAULTY}" in text
        assert "rank 0" not in text
        assert "caught" not in text
        assert re.search(
            r"did not compute [1-6] of the 6 gradients of step 0", text
        )  # and not those of the steps after it
    assert "MXNetError" in faulty


@pytest.mark.parametrize("action", ["go on", "repeat", "end", "raise"])
@pytest.mark.parametrize("way", ["trainer", "kvstore", "parts"])
def test_an_update_that_raises_ends_all(way: str, action: str) -> None:
    check_that_the_update_ended_all(_outcomes(way, "update", action), action, "update")


@pytest.mark.parametrize("action", ["go on", "repeat"])
def test_a_rank_that_misses_an_update_ends_all(action: str) -> None:
    check_that_the_missed_update_ended_all(_outcomes("parts", "between", action))


@pytest.mark.parametrize("site", ["loader", "forward"])
def test_a_rank_that_ends_early_is_named(site: str) -> None:
    check_that_the_others_name_who_left(_outcomes("trainer", site, "end"))


def _unfrozen() -> list[str]:
    hp.init()
    net = mlp(seed=hp.rank())
    hp.broadcast_parameters(net.collect_params(), root_rank=0)
    net[0].collect_params().setattr("grad_req", "null")
    trainer = _trainer("trainer", net)
    seen = []
    for step in range(4):
        if step == 2:
            net[0].collect_params().setattr("grad_req", "write")
        inputs, labels = batch(hp.rank(), step)
        with mx.autograd.record():
            loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(net(inputs), labels)
        loss.backward()
        trainer.step(BATCH)
        seen.append(fingerprint(net[0]))
    return seen


def test_parameters_that_get_a_gradient_later_are_synchronised() -> None:
    results = run(_unfrozen, 2)
    assert results[0] == results[1]
    assert results[0][0] == results[0][1]
    assert len(set(results[0])) == 3


def _of_an_engine_before() -> None:
    hp.init()
    net = mlp()
    trainer = _trainer("trainer", net)

    def step() -> None:
        with mx.autograd.record():
            loss = net(batch(0, 0)[0])
        loss.backward()
        trainer.step(BATCH)

    step()
    mx.nd.waitall()
    hp.shutdown()
    hp.init()
    with pytest.raises(hp.NotInitialized, match="made before the last shutdown"):
        step()


def test_a_trainer_of_an_engine_that_was_shut_down_says_so() -> None:
    run(_of_an_engine_before, 1)


def _copied() -> None:
    hp.init()
    trainer = _trainer("trainer", mlp())
    optimizer = hp.DistributedOptimizer(mx.optimizer.SGD(momentum=0.9))
    for each in (trainer, optimizer):
        for copied in (copy.copy, copy.deepcopy):
            with pytest.raises(hp.Unsupported, match="cannot be copied"):
                copied(each)
    assert type(pickle.loads(pickle.dumps(optimizer))) is mx.optimizer.SGD
    with pytest.raises(hp.Unsupported, match="save_states"):
        pickle.dumps(trainer)


def test_copies_are_refused_and_a_pickled_optimizer_is_the_plain_one() -> None:
    run(_copied, 1)

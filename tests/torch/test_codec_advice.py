# SPDX-License-Identifier: Apache-2.0
"""HiPress warns if an optimizer is wrapped with a codec that does not suit it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import hipress
import hipress.torch as hp
from hipress import _core
from hipress.adapter import planned
from hipress.adapter.codec_advice import CodecAdvice
from hipress.adapter.lists.description import TensorDescription
from hipress.adapter.optim.optimizer_traits import traits_of
from hipress.adapter.synchronizer import SynchronizationOptions, TensorList
from hipress.secopa.online.automatic import AutomaticOptions
from tests.torch.models import loss, mlp
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


class Lamb(torch.optim.Optimizer):
    """A library's Lamb: it has two betas, but does not derive from Adam."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1, "betas": (0.9, 0.99)})


class Lion(Lamb):
    """A library's Lion: it has two betas, but no second moment."""


class Own(torch.optim.AdamW):
    """A user's own subclass of AdamW."""


ADAM_LIKE: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    **{
        name: getattr(torch.optim, name)
        for name in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "SparseAdam")
    },
    "Adafactor": torch.optim.Adafactor,
    "Lamb": Lamb,
    "Own": Own,
}
OTHERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "ASGD": torch.optim.ASGD,
    "Rprop": torch.optim.Rprop,
    "LBFGS": torch.optim.LBFGS,
    "Lion": Lion,
}


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


@pytest.fixture(autouse=True)
def alone() -> Any:
    hp.init()
    yield
    hp.shutdown()


def said(wrap: Callable[[], Any]) -> list[str]:
    """The warnings of `wrap`; each must name this file as its source."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wrap()
    ours = [warning for warning in caught if issubclass(warning.category, hp.CodecWarning)]
    assert {warning.filename for warning in ours} <= {__file__}
    return [str(warning.message) for warning in ours]


def wrapped(make: Callable[[Any], torch.optim.Optimizer], **options: Any) -> Any:
    # The parameters are a list, because RMSprop and other optimizers iterate over them twice.
    model = mlp(hidden=40)
    return hp.DistributedOptimizer(make(list(model.parameters())), model.named_parameters(), **options)


@pytest.mark.parametrize("name", ADAM_LIKE)
def test_error_feedback_with_second_moments(name: str) -> None:
    (text,) = said(lambda: wrapped(ADAM_LIKE[name], codec="onebit(block=64)"))
    for part in (
        "'onebit(block=64)'",
        f" {name} ",
        'codec="int8" or "int4"',
        "optim.OneBitLamb in place of Lamb" if name == "Lamb" else "optim.OneBitAdam in place of",
    ):
        assert part in text
    assert (Path(__file__).parents[2] / text.rpartition("see ")[2]).exists()


@pytest.mark.parametrize("codec", ["onebit", "tbq", "graddrop", "dgc", "powersgd"])
def test_every_codec_with_error_feedback(codec: str) -> None:
    (text,) = said(lambda: wrapped(torch.optim.AdamW, codec=codec))
    assert codec in text
    assert "error_feedback=false" not in text  # it ends far above uncompressed gradients on some texts
    assert said(lambda: wrapped(torch.optim.AdamW, codec=f"{codec}(error_feedback=false)")) == []
    with_sgd = said(lambda: wrapped(OTHERS["SGD"], codec=codec))
    # The evidence has a loss of this one.
    assert ["SGD without momentum" in text for text in with_sgd] == [True] * (codec == "graddrop")


@pytest.mark.parametrize("codec", ["none", "fp16", "terngrad(bitwidth=4)", "bf16", "int8"])
def test_codecs_that_remember_nothing_go_with_all(codec: str) -> None:
    assert said(lambda: wrapped(torch.optim.AdamW, codec=codec)) == []


@pytest.mark.parametrize("codec", ["int4", "fp4_e2m1", "int8(error_feedback=true)"])
def test_codecs_that_send_every_value_go_with_all(codec: str) -> None:
    assert said(lambda: wrapped(torch.optim.AdamW, codec=codec)) == []


@pytest.mark.parametrize("name", OTHERS)
def test_optimizers_without_second_moments(name: str) -> None:
    assert said(lambda: wrapped(OTHERS[name], codec="onebit")) == []


def test_momentum_twice() -> None:
    (text,) = said(lambda: wrapped(momentum, codec="dgc(ratio=0.01)"))
    for part in ("'dgc(ratio=0.01)'", " SGD ", "twice", "momentum 0", '"int8" or "int4"', "DGCSGD"):
        assert part in text
    assert said(lambda: wrapped(momentum, codec="dgc(momentum=0)")) == []
    assert said(lambda: wrapped(momentum, codec="graddrop(ratio=0.3)")) == []
    (lion,) = said(lambda: wrapped(Lion, codec="dgc"))
    assert "twice" in lion


def test_trainings_have_shown_a_loss() -> None:
    (text,) = said(lambda: wrapped(torch.optim.AdamW, codec="terngrad"))
    for part in ("'terngrad' and AdamW: trainings", "% of the gain", "evidence --optimizer adam", "auto"):
        assert part in text
    (text,) = said(lambda: wrapped(momentum, codec="onebit(error_feedback=true)"))
    assert "SGD with momentum" in text
    assert said(lambda: wrapped(OTHERS["SGD"], codec="onebit")) == []
    assert said(lambda: wrapped(OTHERS["Lion"], codec="onebit")) == []


@pytest.mark.parametrize("where", ["meta", "bfloat16"])
def test_optimizers_that_refuse_the_parameters_are_not_recommended(where: str) -> None:
    model = mlp(hidden=40).to("meta" if where == "meta" else torch.bfloat16)
    for optimizer, codec in ((torch.optim.AdamW, "onebit"), (momentum, "dgc")):
        objection = CodecAdvice(traits_of(optimizer(model.parameters()))).objection(codec)
        assert '"int8" or "int4"' in objection
        assert "hipress.torch.optim" not in objection
    with pytest.raises(hp.Unsupported) as refused:
        hp.optim.OneBitAdam(model.named_parameters(), freeze_step=2)
    assert ("is on meta" in str(refused.value)) == (where == "meta")
    assert ("keep the parameters float32" in str(refused.value)) == (where == "bfloat16")


def test_it_is_said_once_and_of_each_codec() -> None:
    def wrap() -> None:
        codecs = {"0.weight": "graddrop", "0.bias": "onebit(block=64)", "2.weight": "fp16"}
        optimizer = wrapped(torch.optim.Adam, codec="onebit", codec_for=codecs)
        for ratio in (0.25, 0.1):
            optimizer.set_codec(f"graddrop(ratio={ratio})")

    assert [text.split("'")[1] for text in said(wrap)] == ["onebit", "graddrop"]


def test_codecs_that_are_set_later() -> None:
    optimizer = wrapped(torch.optim.Adam)
    (text,) = said(lambda: optimizer.set_codec("tbq"))
    assert "'tbq'" in text


def test_a_filter_makes_it_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", hipress.CodecWarning)
        with pytest.raises(hipress.CodecWarning, match="onebit"):
            wrapped(torch.optim.Adam, codec="onebit")


def test_a_plans_codecs(tmp_path: Path) -> None:
    names = [name for name, _ in mlp(hidden=40).named_parameters()]
    sizes = [parameter.numel() for parameter in mlp(hidden=40).parameters()]
    file = tmp_path / "plan.txt"
    file.write_text("\n".join(f"{name},{size},y,1" for name, size in zip(names, sizes, strict=True)) + "\n")
    for make, expected in ((torch.optim.Adam, 1), (momentum, 1), (OTHERS["SGD"], 0)):
        assert len(said(lambda make=make: wrapped(make, codec="onebit", plan=str(file)))) == expected
    optimizer = wrapped(torch.optim.Adam, codec="fp16", plan=str(file))
    assert said(lambda: optimizer.set_plan(None)) == []


@pytest.mark.parametrize("plan", ["auto", AutomaticOptions(codecs=("onebit", "int8"))])
def test_automatic_plans_say_that_they_leave_a_codec_out(plan: Any) -> None:
    (text,) = said(lambda: wrapped(torch.optim.AdamW, codec="onebit", plan=plan))
    assert "automatic plans leave out" in text
    assert "'onebit'" in text
    assert said(lambda: wrapped(OTHERS["SGD"], codec="onebit", plan=plan)) == []


def test_automatic_plans_refuse_a_codec_that_the_ranks_cannot_have(monkeypatch: Any) -> None:
    automatic = AutomaticOptions(codecs=("onebit", "int8_shared"), codecs_for=(("0.*", ("powersgd",)),))
    assert said(lambda: wrapped(OTHERS["SGD"], codec="int8_shared", plan="auto")) == []
    assert said(lambda: wrapped(OTHERS["SGD"], plan=automatic)) == []
    monkeypatch.setattr(planned.runtime, "size", lambda: 9)
    with pytest.raises(hp.InvalidArgument, match="'int8_shared' adds levels of up to 15 in 8 bits"):
        wrapped(OTHERS["SGD"], plan=automatic)
    monkeypatch.undo()


def test_automatic_plans_refuse_gradients_on_gpus() -> None:
    described = TensorDescription("w", "float32", 64, "[8, 8]", device=_core.SimulatedDevice())
    tensors = TensorList([described], SynchronizationOptions(codec="onebit"))
    for argument in ("auto", AutomaticOptions(codecs=("onebit",))):
        with pytest.raises(hp.Unsupported, match=r"on the processor, and 'w' is on a GPU, .*: give codec= or a plan"):
            planned.automatic_planning(argument, tensors, tensors.options)


def _planned(make: str) -> list[str]:
    """The codecs that automatic plans may use for this optimizer."""
    warnings.simplefilter("ignore", hp.CodecWarning)
    hp.init()
    model = mlp(hidden=40)
    kind = torch.optim.AdamW if make == "AdamW" else torch.optim.SGD
    options = AutomaticOptions(
        codecs=("onebit", "terngrad"), codecs_for=(("0.*", ("graddrop", "fp16")),), interval=2, profile_s=0.5
    )
    optimizer = hp.DistributedOptimizer(kind(model.parameters(), lr=0.01), model.named_parameters(), plan=options)
    for step in range(4):
        optimizer.zero_grad()
        loss(model, hp.rank(), step).backward()
        optimizer.step()
    planning = optimizer._hipress.planning
    return [*planning._options.codecs, *planning._options.codecs_for[0][1], *sorted(planning.profile.codecs)]


@pytest.mark.parametrize(("make", "codecs"), [("AdamW", ["fp16"]), ("SGD", ["onebit", "terngrad", "fp16"])])
def test_what_an_automatic_plan_may_use(make: str, codecs: list[str]) -> None:
    for allowed in run(_planned, 2, make):
        assert allowed[: len(codecs)] == codecs
        assert ("onebit" in "".join(allowed)) == (make == "SGD")


def test_a_model_trains_on_after_the_warning() -> None:
    model: nn.Module = mlp(hidden=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hp.CodecWarning)
        optimizer = hp.DistributedOptimizer(
            torch.optim.AdamW(model.parameters()), model.named_parameters(), codec="onebit"
        )
    assert said(lambda: (loss(model, 0, 0).backward(), optimizer.step())) == []


def test_kinds_of_optimizers_for_an_automatic_codec() -> None:
    def kind(make: Callable[[Any], torch.optim.Optimizer]) -> str:
        return traits_of(make(mlp(hidden=40).parameters())).kind

    unlike_adam = {"Lamb": "lamb"}
    for name, make in ADAM_LIKE.items():
        assert kind(make) == unlike_adam.get(name, "adam"), name
    assert {name: kind(make) for name, make in OTHERS.items()} == {**dict.fromkeys(OTHERS, "unknown"), "SGD": "sgd"}
    assert kind(momentum) == "momentum"
    assert kind(lambda parameters: torch.optim.Muon([each for each in parameters if each.dim() == 2])) == "muon"


def test_an_automatic_codec_needs_no_other_choice_and_whole_steps() -> None:
    model = mlp(hidden=40)

    def wrapped(**options: Any) -> None:
        hp.DistributedOptimizer(momentum(model.parameters()), model.named_parameters(), **options)

    for options, text in (
        ({"warmup": 3}, "give it without warmup"),
        ({"compression": hp.Compression.fp16}, "give it without compression"),
        ({"accuracy": "best"}, "accuracy='best' does not exist"),
    ):
        with pytest.raises(hp.InvalidArgument, match=text):
            wrapped(codec="auto", **options)
    with pytest.raises(hp.InvalidArgument, match='is for codec="auto"'):
        wrapped(codec="int8", accuracy="safe")
    wrapped(codec="auto", accuracy="economy")

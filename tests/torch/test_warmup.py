# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer(warmup=…): what the first steps travel with, and that nothing is lost where it changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hipress.torch as hp
from hipress.options.warmup import DGC_RATIOS, with_ratio
from tests.torch import models
from tests.torch.ranks import run


def test_stages() -> None:
    assert hp.Warmup(3).stages("onebit") == [(0, "none"), (3, "onebit")]
    assert hp.Warmup(3, "int8").stages("onebit") == [(0, "int8"), (3, "onebit")]
    stages = hp.Warmup(12, ratios=DGC_RATIOS).stages("dgc(momentum=0, ratio=0.0005)")
    assert [step for step, _ in stages] == [0, 2, 4, 7, 9, 12]
    assert stages[1][1] == "dgc(ratio=0.0625, momentum=0)"
    assert stages[-1][1] == "dgc(momentum=0, ratio=0.0005)"
    assert [hp.Warmup(4, ratios=(0.5, 0.25)).ratio_at(step, 0.1) for step in range(5)] == [0.5, 0.5, 0.25, 0.25, 0.1]
    assert with_ratio("graddrop", 0.25) == "graddrop(ratio=0.25)"
    assert with_ratio("graddrop()", 0.25) == "graddrop(ratio=0.25)"
    assert with_ratio("dgc(sample_rate=0.01, ratio=1e-3)", 1.0) == "dgc(ratio=1.0, sample_rate=0.01)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "1 step or more"),
        ({"steps": True}, "1 step or more"),
        ({"steps": 2.0}, "1 step or more"),
        ({"steps": 9, "codec": "unheard"}, "unheard"),
        ({"steps": 9, "codec": "fp16", "ratios": (0.5,)}, "not both"),
        ({"steps": 9, "ratios": (0.5, 0.0)}, "above 0"),
        ({"steps": 9, "ratios": (float("nan"),)}, "above 0"),
        ({"steps": 1, "ratios": (0.5, 0.25)}, "no room"),
    ],
)
def test_warm_ups_that_are_none(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(hp.InvalidArgument, match=message):
        hp.Warmup(**arguments)


def test_only_codecs_with_a_ratio_have_ratios() -> None:
    with pytest.raises(hp.InvalidArgument, match="no option ratio"):
        hp.Warmup(9, ratios=(0.5,)).stages("onebit")


def _trained(options: dict[str, Any], changes: dict[int, tuple[Any, ...]]) -> list[str]:
    """After each of 7 steps the parameters, with `set_codec(*changes[step])` before step `step`."""
    hp.init()
    model = models.mlp(0, 40)
    optimizer = hp.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), min_compress_bytes=0, **options
    )
    seen = []
    for step in range(7):
        if step in changes:
            optimizer.set_codec(*changes[step])
        optimizer.zero_grad()
        models.loss(model, hp.rank(), step).backward()
        optimizer.step()
        seen.append(models.fingerprint(model))
    return seen


_OWN = {"0.weight": "fp16"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("warmup", "codec", "first", "changes"),
    [
        (3, "onebit", "none", {3: ("onebit", _OWN)}),
        (hp.Warmup(2, "onebit"), "graddrop(ratio=0.1)", "onebit", {2: ("graddrop(ratio=0.1)", _OWN)}),
        (
            hp.Warmup(4, ratios=(0.5, 0.25)),
            "graddrop(ratio=0.1)",
            "graddrop(ratio=0.5)",
            {2: ("graddrop(ratio=0.25)", _OWN), 4: ("graddrop(ratio=0.1)", _OWN)},
        ),
        (0, "onebit", "onebit", {}),
    ],
)
def test_it_is_what_calls_of_set_codec_would_do(
    warmup: Any, codec: str, first: str, changes: dict[int, tuple[Any, ...]]
) -> None:
    own = _OWN if warmup == 0 or getattr(warmup, "ratios", ()) else {}
    by_hand = run(_trained, 2, {"codec": first, "codec_for": own}, changes)
    by_option = run(_trained, 2, {"codec": codec, "codec_for": _OWN, "warmup": warmup}, {})
    assert by_option == by_hand
    assert by_option[0] == by_option[1]


def _ended_by_hand() -> None:
    assert _trained({"codec": "onebit", "warmup": 4}, {2: ("fp16",)}) == _trained({}, {2: ("fp16",)})
    hp.shutdown()
    hp.init()
    model = models.mlp(0, 40)
    for options, message in [
        ({"warmup": 3, "plan": "auto"}, "without plan"),
        ({"warmup": "3"}, "warmup='3'"),
        ({"warmup": -3}, "1 step or more"),
        ({"warmup": hp.Warmup(3, ratios=(0.5,)), "codec": "fp16"}, "no option ratio"),
    ]:
        with pytest.raises(hp.InvalidArgument, match=message):
            hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters(), **options)


@pytest.mark.slow
def test_set_codec_ends_it_and_what_does_not_go_together_is_refused() -> None:
    run(_ended_by_hand, 1)

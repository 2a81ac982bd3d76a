# SPDX-License-Identifier: Apache-2.0
"""set_codec() and warmup= change the codec during a training, and lose no residual of the codec before."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import hipress.torch as hp
from tests.tiers import thorough
from tests.torch.models import fingerprint, loss, mlp
from tests.torch.optimizers import start
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _switching(codecs: list[str]) -> list[str]:
    """Trains three steps with each codec, one after the other; "" keeps the codec. Returns the fingerprint after every
    step."""
    hp.init()
    model = mlp(seed=hp.rank())
    optimizer = start(model, codec=codecs[0])
    seen = []
    for turn, codec in enumerate(codecs):
        if turn > 0 and codec:
            optimizer.set_codec(codec)
        for step in range(3 * turn, 3 * turn + 3):
            optimizer.zero_grad()
            loss(model, hp.rank(), step).backward()
            optimizer.step()
            seen.append(fingerprint(model))
    return seen


@pytest.mark.parametrize("codec", ["onebit", thorough("dgc"), "terngrad"])
def test_to_set_the_same_codec_changes_no_bit(codec: str) -> None:
    assert run(_switching, 2, [codec, codec, codec]) == run(_switching, 2, [codec, "", ""])


def test_residuals_live_on_with_another_codec_of_the_same_meaning() -> None:
    # Partitions are smaller than either block, so both codecs encode alike, but the ranks agree on a new tensor.
    codecs = ["onebit(block=65536)", "onebit(block=131072)", "onebit(block=65536)"]
    assert run(_switching, 3, codecs) == run(_switching, 3, [codecs[0], "", ""])


@pytest.mark.parametrize(
    "codecs",
    [
        ["none", "dgc(ratio=0.1)", "none"],
        ["dgc(ratio=0.1)", "dgc(ratio=0.01)", "graddrop(ratio=0.01)"],
        ["onebit", "fp16", "tbq"],
        ["none", "powersgd(rank=2)", "powersgd(rank=4)", "onebit", "powersgd"],
        ["graddrop(ratio=0.1)", "terngrad", "onebit(error_feedback=false)"],
    ],
)
def test_replicas_stay_identical_when_the_codec_changes(codecs: list[str]) -> None:
    by_rank = run(_switching, 3, codecs)
    assert all(seen == by_rank[0] for seen in by_rank)
    assert len(set(by_rank[0])) == 3 * len(codecs)


def _sum_of_what_arrives(codecs: list[str], arguments: dict[str, Any], not_finite_at: int) -> tuple[float, float]:
    """The largest difference between the ranks' average gradients and the results, summed over all steps and over all
    but the last.

    Rank 1 has no gradient in the step after the first change. Rank 0 has a NaN in the step `not_finite_at`, and that
    step counts on no rank.
    """
    hp.init()
    # With channels-last, unsent residuals must also be added in memory order.
    weight = nn.Parameter(torch.zeros(16, 8, 6, 6).to(memory_format=torch.channels_last))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    optimizer = hp.DistributedOptimizer(optimizer, [("w", weight)], codec=codecs[0], **arguments)
    given, arrived = torch.zeros_like(weight, dtype=torch.float64), torch.zeros_like(weight, dtype=torch.float64)
    difference, earlier = 0.0, 0.0
    for step, codec in enumerate(codecs):
        if step > 0:
            optimizer.set_codec(codec)
        optimizer.zero_grad()
        for rank in range(hp.size()):
            values = torch.randn(weight.shape, generator=torch.Generator().manual_seed(10 * step + rank))
            gives = not (step == 1 and rank == 1)
            if gives and step != not_finite_at:
                given += values / (hp.size() if arguments.get("op", hp.Average) == hp.Average else 1)
            if gives and rank == hp.rank():
                if rank == 0 and step == not_finite_at:
                    values[0, 0, 0, 0] = torch.nan
                (weight * values).sum().backward()
        optimizer.synchronize()
        gradient = weight.grad
        assert gradient is not None
        if step == not_finite_at:
            assert gradient.isnan().any()
        else:
            arrived += gradient
        earlier, difference = difference, float((given - arrived).abs().max())
        optimizer.zero_grad()
        optimizer.step()
    return difference, earlier


@pytest.mark.parametrize("codec", ["onebit", "graddrop(ratio=0.01)", thorough("tbq")])
@pytest.mark.parametrize("arguments", [{}, thorough({"op": hp.Sum}), thorough({"gradient_predivide_factor": 2.0})])
def test_what_was_held_back_arrives_when_the_next_codec_holds_nothing_back(
    codec: str, arguments: dict[str, Any]
) -> None:
    for difference, earlier in run(_sum_of_what_arrives, 3, [codec, codec, codec, "none"], arguments, -1):
        assert difference < 1e-4 < 0.1 < earlier


def test_what_was_held_back_waits_for_a_rank_that_has_no_gradient() -> None:
    for difference, earlier in run(_sum_of_what_arrives, 3, ["onebit", "none", "none"], {}, -1):
        assert difference < 1e-4 < 0.1 < earlier


def test_what_was_held_back_waits_for_a_gradient_that_is_finite() -> None:
    for difference, earlier in run(_sum_of_what_arrives, 3, ["onebit", "onebit", "none", "none"], {}, 2):
        assert difference < 1e-4 < 0.1 < earlier


def _codecs_of_parameters_change() -> tuple[int, int]:
    hp.init()
    model = nn.Linear(512, 512, bias=False)
    optimizer = hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    sent = []
    for codec_for in ({"weight": "onebit"}, None):
        optimizer.set_codec("none", codec_for)
        hp.allreduce(torch.zeros(1))
        before = hp.counters()["bytes_sent"]
        model(torch.ones(2, 512)).sum().backward()
        optimizer.step()
        sent.append(hp.counters()["bytes_sent"] - before)
    with pytest.raises(hp.InvalidArgument, match="'bias', which is not one of"):
        optimizer.set_codec("none", {"bias": "fp16"})
    with pytest.raises(hp.InvalidArgument, match="twobit"):
        optimizer.set_codec("twobit")
    return sent[0], sent[1]


def test_set_codec_takes_codecs_of_single_parameters() -> None:
    for compressed, plain in run(_codecs_of_parameters_change, 2):
        assert compressed < 512 * 512 * 4 / 30
        assert plain > 512 * 512 * 4 / 2


def _different_codecs(differ: bool) -> list[str]:
    hp.init()
    model = mlp()
    optimizer = start(model, codec="onebit")
    if differ:
        with pytest.raises(hp.Mismatch, match=r"'2.weight'.*tbq"):
            optimizer.set_codec("tbq" if hp.rank() == 1 else "dgc", dict.fromkeys(("0.weight", "0.bias"), "none"))
    seen = []
    for step in range(3):
        optimizer.zero_grad()
        loss(model, hp.rank(), step).backward()
        optimizer.step()
        seen.append(fingerprint(model))
    return seen


def test_ranks_that_set_different_codecs_are_told_and_go_on_as_before() -> None:
    by_rank = run(_different_codecs, 2, True)
    assert by_rank[0] == by_rank[1]
    assert by_rank == run(_different_codecs, 2, False)


def _codec_within_backward() -> list[str]:
    hp.init()
    model = mlp()
    optimizer = start(model)
    refused: list[str] = []

    def too_early(_: torch.Tensor) -> None:
        try:
            optimizer.set_codec("onebit")
        except hp.InvalidArgument as error:
            refused.append(str(error))

    model[0].weight.register_post_accumulate_grad_hook(too_early)
    loss(model, hp.rank(), 0).backward()
    optimizer.step()
    optimizer.set_codec("onebit")
    return refused


def test_the_codec_cannot_change_while_gradients_are_in_flight() -> None:
    for refused in run(_codec_within_backward, 2):
        assert len(refused) == 1
        assert "in flight" in refused[0]


def _warmed_up(options: dict[str, Any], changes: dict[int, tuple[Any, ...]]) -> list[str]:
    """The fingerprint after each of 7 steps, with `set_codec(*changes[step])` before step `step`."""
    hp.init()
    model = mlp(0, 40)
    optimizer = hp.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), min_compress_bytes=0, **options
    )
    seen = []
    for step in range(7):
        if step in changes:
            optimizer.set_codec(*changes[step])
        optimizer.zero_grad()
        loss(model, hp.rank(), step).backward()
        optimizer.step()
        seen.append(fingerprint(model))
    return seen


_OWN = {"0.weight": "fp16"}


@pytest.mark.parametrize(
    ("warmup", "codec", "first", "changes"),
    [
        (3, "onebit", "none", {3: ("onebit", _OWN)}),
        (hp.Warmup(2, "onebit"), "graddrop(ratio=0.1)", "onebit", {2: ("graddrop(ratio=0.1)", _OWN)}),
        (
            hp.Warmup(4, ratios=(0.4, 0.25)),
            "graddrop(ratio=0.1)",
            "graddrop(ratio=0.4)",
            {2: ("graddrop(ratio=0.25)", _OWN), 4: ("graddrop(ratio=0.1)", _OWN)},
        ),
        (0, "onebit", "onebit", {}),
    ],
)
def test_a_warm_up_is_what_calls_of_set_codec_would_do(
    warmup: Any, codec: str, first: str, changes: dict[int, tuple[Any, ...]]
) -> None:
    own = _OWN if warmup == 0 or getattr(warmup, "ratios", ()) else {}
    by_hand = run(_warmed_up, 2, {"codec": first, "codec_for": own}, changes)
    by_option = run(_warmed_up, 2, {"codec": codec, "codec_for": _OWN, "warmup": warmup}, {})
    assert by_option == by_hand
    assert by_option[0] == by_option[1]


def _warm_up_ended_by_hand() -> None:
    assert _warmed_up({"codec": "onebit", "warmup": 4}, {2: ("fp16",)}) == _warmed_up({}, {2: ("fp16",)})
    hp.shutdown()
    hp.init()
    model = mlp(0, 40)
    for options, message in [
        ({"warmup": 3, "plan": "auto"}, "without plan"),
        ({"warmup": "3"}, "warmup='3'"),
        ({"warmup": -3}, "1 step or more"),
        ({"warmup": hp.Warmup(3, ratios=(0.5,)), "codec": "fp16"}, "no option ratio"),
    ]:
        with pytest.raises(hp.InvalidArgument, match=message):
            hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters(), **options)


def test_set_codec_ends_a_warm_up_and_what_does_not_go_together_is_refused() -> None:
    run(_warm_up_ended_by_hand, 1)

# SPDX-License-Identifier: Apache-2.0
"""Figures above the limits are harm: a warning once, or safer codecs."""

from __future__ import annotations

import warnings

import pytest

from hipress.errors import CodecWarning, InvalidArgument, Unsupported
from hipress.watching import Figures, TensorFigures
from hipress.watching.harm import ERROR, FRESH, OnHarm, harm, safer_codec


def _figures(error: float, fresh: float, steps: int = 20, codec: str = "onebit") -> Figures:
    tensors = {
        "small": TensorFigures("small", "int8", 10, 0.0, 0.1, 0.1),
        "large": TensorFigures("large", codec, 10, error * 10.1, 10.0, fresh * 10.1 - 0.1),
    }
    return Figures(40, steps, 0, 0.0, 0.0, 0.0, tensors)


_FORGETS = "onebit(error_feedback=false)"


@pytest.mark.parametrize(
    ("kind", "codec", "error", "fresh", "is_harm"),
    [
        ("momentum", "onebit", 100.0, FRESH + 0.01, False),
        ("momentum", "onebit", 0.0, FRESH - 0.01, True),
        ("sgd", "onebit", 100.0, 0.0, False),  # it sends the rest later
        ("sgd", _FORGETS, 0.0, FRESH - 0.01, True),
        ("sgd", _FORGETS, 100.0, FRESH + 0.01, False),
        ("adam", "onebit", ERROR * 0.99, 1.0, False),
        ("adam", "onebit", ERROR * 1.01, 1.0, True),
        (None, "onebit", ERROR * 1.01, 1.0, True),
        ("muon", _FORGETS, 0.0, FRESH - 0.01, True),
        ("lamb", "onebit", float("inf"), 1.0, True),
    ],
)
def test_the_limits_depend_on_the_optimizer(
    kind: str | None, codec: str, error: float, fresh: float, is_harm: bool
) -> None:
    found = harm(_figures(error, fresh, codec=codec), kind)
    assert (found is not None) == is_harm
    assert found is None or found.worst.name == "large"


def test_a_window_without_steps_or_gradients_says_nothing() -> None:
    assert harm(_figures(100.0, 0.0, steps=1), "adam") is None
    assert harm(Figures(40, 20, 0, 0.0, 0.0, 0.0, {}), "adam") is None


def test_it_warns_once_with_figure_gradient_and_remedy() -> None:
    on_harm = OnHarm("warn", "momentum", "optimizer.set_codec()")
    with pytest.warns(
        CodecWarning, match=r"(?s)up to step 40 .*have 7% of.*'large' with codec 'onebit'.*'large': 'int4'"
    ):
        on_harm.look(_figures(0.0, 0.07), _never)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not on_harm.look(_figures(0.0, 0.07), _never)
        assert not OnHarm("ignore", "momentum", "").look(_figures(0.0, 0.07), _never)


def _never(name: str, codec: str) -> None:
    raise AssertionError


def test_the_gradient_with_the_largest_error_gets_a_safer_codec() -> None:
    changed: list[tuple[str, str]] = []
    on_harm = OnHarm("safer", "momentum", "optimizer.set_codec()")
    assert on_harm.look(_figures(0.0, 0.1), lambda name, codec: changed.append((name, codec)))
    assert not on_harm.look(_figures(0.0, 1.0), _never)
    assert changed == [("large", "int4")]


def test_where_codecs_cannot_change_it_warns() -> None:
    def refuses(name: str, codec: str) -> None:
        raise Unsupported("not here")

    on_harm = OnHarm("safer", "momentum", "state.set_codec()")
    with pytest.warns(CodecWarning, match="does harm"):
        assert not on_harm.look(_figures(0.0, 0.1), refuses)


@pytest.mark.parametrize(
    ("codec", "safer"),
    [("onebit", "int4"), ("dgc(ratio=0.01)", "int4"), ("int4", "int8"), ("int8(block=64)", "none"), ("fp16", "none")],
)
def test_each_codec_has_a_safer_one(codec: str, safer: str) -> None:
    assert safer_codec(codec) == safer


def test_other_actions_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="'warn', 'safer', 'ignore'"):
        OnHarm("stop", None, "")

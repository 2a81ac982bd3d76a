# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hipress import _core
from hipress.errors import InvalidArgument
from tests.codecs.builtin import NAMES


@pytest.mark.parametrize(
    ("text", "signature", "number", "states"),
    [
        ("none", "none", 0, ()),
        ("fp16", "fp16", 1, ()),
        ("fp16()", "fp16", 1, ()),
        ("onebit", "onebit(block=32768, error_feedback=true)", 16, ("residual",)),
        ("onebit()", "onebit(block=32768, error_feedback=true)", 16, ("residual",)),
        (" onebit ( error_feedback = false ) ", "onebit(block=32768, error_feedback=false)", 16, ()),
        ("tbq(threshold=0.5)", "tbq(threshold=0.5, error_feedback=true)", 17, ("residual",)),
        ("terngrad", "terngrad(bitwidth=2, stochastic=true, block=1024)", 18, ()),
        (
            "dgc(ratio=0.01)",
            "dgc(momentum=0.9, ratio=0.01, sample_rate=0.001, error_feedback=true)",
            19,
            ("velocity", "residual"),
        ),
        ("graddrop", "graddrop(ratio=0.001, sample_rate=0.001, error_feedback=true)", 20, ("residual",)),
        ("bf16", "bf16", 21, ()),
        ("int8", "int8(block=256, stochastic=false, error_feedback=false)", 22, ()),
        ("int8(error_feedback=true)", "int8(block=256, stochastic=false, error_feedback=true)", 22, ("residual",)),
        ("int4", "int4(block=256, stochastic=false, error_feedback=true)", 23, ("residual",)),
        ("int4(error_feedback=false)", "int4(block=256, stochastic=false, error_feedback=false)", 23, ()),
        (
            "fp8_e4m3",
            "fp8_e4m3(block=256, stochastic=false, power_of_two=false, error_feedback=false)",
            24,
            (),
        ),
        (
            "fp8_e5m2(block=64)",
            "fp8_e5m2(block=64, stochastic=false, power_of_two=false, error_feedback=false)",
            25,
            (),
        ),
        (
            "fp4_e2m1",
            "fp4_e2m1(block=256, stochastic=false, power_of_two=false, error_feedback=true)",
            26,
            ("residual",),
        ),
        ("efsignsgd", "efsignsgd(block=32768, error_feedback=true)", 27, ("residual",)),
        ("qsgd", "qsgd(levels=127, block=512, error_feedback=false)", 28, ()),
        ("natural", "natural(stochastic=true, error_feedback=false)", 29, ()),
        ("topk", "topk(ratio=0.01, error_feedback=true)", 30, ("residual",)),
        ("threshold", "threshold(threshold=0.01, ratio=0.25, error_feedback=true)", 31, ("residual",)),
        ("randomk", "randomk(ratio=0.01, error_feedback=true)", 32, ("residual",)),
        ("u8bit", "u8bit(block=4096, error_feedback=false)", 33, ()),
        ("dynamiq", "dynamiq(bits=5.1, block=64, error_feedback=false)", 34, ()),
        ("thc", "thc(levels=7, reach=2.5, stochastic=false, error_feedback=true)", 41, ("residual",)),
    ],
)
def test_text_to_codec(text: str, signature: str, number: int, states: tuple[str, ...]) -> None:
    codec = _core.create_codec(text)
    assert codec.signature == signature
    assert codec.name == signature.split("(")[0]
    assert codec.id == number
    assert codec.states == states


@pytest.mark.parametrize("description", _core.describe_codecs(), ids=lambda codec: codec["name"])
def test_signatures_are_codec_texts_with_every_option_but_factors_of_one(description: _core.CodecDescription) -> None:
    signature = _core.create_codec(description["name"]).signature
    assert _core.create_codec(signature).signature == signature
    options = [option for option in description["options"] if not option["name"].endswith("_factor")]
    defaults = [f"{option['name']}={option['default']}" for option in options]
    assert signature == description["name"] + (f"({', '.join(defaults)})" if defaults else "")


@pytest.mark.parametrize("description", _core.describe_codecs(), ids=lambda codec: codec["name"])
def test_descriptions_name_the_states_that_the_codec_can_keep(description: _core.CodecDescription) -> None:
    keeps = any(option["name"] == "error_feedback" for option in description["options"])
    codec = _core.create_codec(description["name"] + ("(error_feedback=true)" if keeps else ""))
    assert (description["id"], description["states"]) == (codec.id, codec.states)


def test_descriptions_are_sorted_and_complete() -> None:
    ours = {"none", "fp16", *NAMES}
    codecs = {codec["name"]: codec for codec in _core.describe_codecs()}
    assert list(codecs) == sorted(codecs)
    assert ours <= set(codecs)
    for name in ours:  # other tests may have loaded more codecs
        assert codecs[name]["summary"].endswith(".")
        assert all(option["meaning"] for option in codecs[name]["options"])


def test_ids_differ() -> None:
    ids = [_core.create_codec(codec["name"]).id for codec in _core.describe_codecs()]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("onbit", r"fp16, .*none, .*onebit.*; did you mean onebit\?$"),
        ("OneBit", "did you mean onebit"),
        ("zstandard", r"fp16, .*none, .*onebit[^?]*$"),
        (
            "onebit(eror_feedback=true)",
            "its options are block, error_feedback, residual_factor, gradient_factor; did you mean error_feedback",
        ),
        ("fp16(scale=2)", "it has none"),
        ("onebit(error_feedback=yes)", "'yes', must be true or false"),
        ("onebit(error_feedback=True)", "must be true or false"),
        ("onebit(error_feedback=true, error_feedback=true)", "given twice"),
        ("onebit(error_feedback=true,)", "an option is empty"),
        ("onebit(,)", "an option is empty"),
        ("onebit(error_feedback)", "has no '=value'"),
        ("onebit(error_feedback=)", "'' is not a value"),
        ("onebit(=true)", "'' is not an option name"),
        ("onebit(error_feedback=true", r"'\)' is missing"),
        ("onebit(error_feedback=true) x", "' x' after"),
        ("onebit()()", "after"),
        ("onebit)", "is not a codec name"),
        ("(error_feedback=true)", "is not a codec name"),
        ("one bit", "is not a codec name"),
        ("onebit(error_feedback=a=b)", "is not a value"),
    ],
)
def test_wrong_texts_say_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        _core.create_codec(text)


@given(st.text(alphabet="onebit(=,) true\0é", max_size=30))
@example("onebit" + "(" * 1000)
def test_any_text_is_a_codec_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidArgument):
        assert _core.create_codec(text).name in text

# SPDX-License-Identifier: Apache-2.0
"""Codecs as objects with typed options (hipress.codecs)."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import hipress
from hipress import _core, codecs
from hipress.errors import InvalidArgument
from hipress.options.warmup import Warmup

ROOT = Path(__file__).parents[2]
CLASSES: list[Any] = [getattr(codecs, name) for name in codecs.builtin.__all__]
#: Values of options that 64 or 0.5 is the default of, or no value of.
OTHER: dict[str, Any] = {
    "bits": 6.0,
    "reach": 3.0,
    "min_ratio": 3.0,
    "levels": 3,
    "bitwidth": 4,
    "rank": 2,
    "block": 128,
}


def test_the_classes_are_those_that_the_declarations_give() -> None:
    """python compll/generate_codec_classes.py writes the file."""
    script = runpy.run_path(str(ROOT / "compll" / "generate_codec_classes.py"))
    ruff = Path(sys.executable).with_name("ruff")
    text = subprocess.run(
        [str(ruff), "format", "--stdin-filename", str(script["FILE"]), "-"],
        input=script["generated"](),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    ).stdout
    assert text == script["FILE"].read_text()
    assert {each().name for each in CLASSES} == set(script["CLASSES"])
    assert {*codecs.builtin.__all__, "Codec", "LoadedCodec", "load_codec"} == set(codecs.__all__)


@pytest.mark.parametrize("kind", CLASSES)
def test_without_options_it_is_the_name_and_with_all_defaults_the_same_codec(kind: type[codecs.Codec]) -> None:
    codec = kind()
    assert codec == codec.name
    described = [*_core.describe_codecs(), *_core.describe_codecs(False)]
    (description,) = (each for each in described if each["name"] == codec.name)
    options = [option["name"] for option in description["options"]]
    everything = codecs.typed.codec_text(codec.name, {each: getattr(codec, each) for each in options})
    assert _core.create_codec(everything).signature == _core.create_codec(codec).signature


@pytest.mark.parametrize("kind", CLASSES)
def test_each_option_has_its_type_and_reaches_the_codec(kind: type[codecs.Codec]) -> None:
    hints = get_type_hints(kind)
    for option, parameter in inspect.signature(kind.__new__).parameters.items():
        if option == "cls":
            continue
        value = (
            not parameter.default if hints[option] is bool else OTHER.get(option, {int: 64, float: 0.5}[hints[option]])
        )
        # These two are refused without error feedback.
        beside = {"error_feedback": True} if option in ("residual_factor", "gradient_factor") else {}
        codec = kind(**{option: value, **beside})
        assert getattr(codec, option) == value
        assert type(value) is hints[option]
        name, said = _core.parse_codec_text(codec)
        assert (name, said[option]) == (codec.name, str(value).lower())
        assert _core.create_codec(codec).signature != _core.create_codec(kind(**beside)).signature


def test_a_wrong_value_is_refused_where_the_codec_is_made() -> None:
    with pytest.raises(InvalidArgument, match="ratio"):
        codecs.DGC(ratio=2.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'rate'"):
        codecs.DGC(rate=0.1)


def test_it_is_a_text_everywhere() -> None:
    codec = codecs.Int8(block=128, error_feedback=True)
    assert codec == "int8(block=128, error_feedback=true)"
    assert f"{codec}" == str(codec) == codec
    assert repr(codec).startswith("Int8(block=128, stochastic=False, error_feedback=True")
    assert json.loads(json.dumps({"codec": codec})) == {"codec": codec}
    assert {codec: 1}["int8(block=128, error_feedback=true)"] == 1
    assert Warmup(2, codec=codec).codec == codec
    for same in (copy.copy(codec), copy.deepcopy(codec), pickle.loads(pickle.dumps(codec))):
        assert (type(same), same, same.block, same.error_feedback) == (codecs.Int8, codec, 128, True)
    with pytest.raises(AttributeError, match="make another one"):
        codec.block = 64


@pytest.mark.slow
def test_a_loaded_codec_takes_options_by_a_call() -> None:
    threelc = hipress.load_codec(ROOT / "examples" / "compll" / "threelc.cll")
    assert threelc == threelc.name == "threelc"
    given = threelc(sparsity=1.5)
    assert given == "threelc(sparsity=1.5)"
    for same in (copy.deepcopy(given), pickle.loads(pickle.dumps(given))):
        assert (same, same.name, same.sparsity) == (given, "threelc", 1.5)
    with pytest.raises(InvalidArgument, match="nothing"):
        threelc(nothing=1)

# SPDX-License-Identifier: Apache-2.0
"""`hipress codec check` names the law that a codec breaks, and `hipress codec compare` the place where two differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hipress import _core
from hipress.codecs.cli import app
from hipress.codecs.laws import breaches
from hipress.codecs.named import codec_named
from hipress.compll.emit.wire_numbers import FIRST_OF_USERS
from hipress.errors import InvalidArgument

EXAMPLES = Path(__file__).parents[3] / "examples" / "compll"
HERE = "tests.torch.python_codecs"
BROKEN = {
    "BrkCounts": "equal inputs give equal messages",
    "BrkRemembers": "a message is all that decode needs",
    "BrkDraws": "equal inputs give equal messages",
    "BrkDrops": "the residual is sent later",
    "BrkDivides": "finite values stay finite",
}


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("name", BROKEN)
def test_the_broken_law_is_named(name: str) -> None:
    result = _run("check", f"{HERE}.broken:{name}")
    assert result.exit_code == 1
    assert f"{name.lower()} breaks a law: {BROKEN[name]}\n" in result.output
    assert "keeps all laws" not in result.output


@pytest.mark.parametrize("name", ["PyInt8", "PyTopK(ratio=0.2)", "PyMomentum", "PyThreshold", "PyRandom"])
def test_right_classes_keep_all_laws(name: str) -> None:
    result = _run("check", f"{HERE}.codecs:{name}")
    assert result.exit_code == 0, result.output
    assert "keeps all laws" in result.output


def test_built_in_codecs_keep_all_laws() -> None:
    for known in _core.describe_codecs():
        if known["id"] >= FIRST_OF_USERS:
            continue
        made = _core.create_codec(known["name"])
        assert breaches(made, _core.create_codec(known["name"])) == [], known["name"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adacomp", "blockquant4", "eden"])
def test_programs_in_compll_keep_all_laws(name: str) -> None:
    result = _run("check", str(EXAMPLES / f"{name}.cll"))
    assert result.exit_code == 0, result.output


def test_a_class_is_the_oracle_of_another_codec() -> None:
    same = _run("compare", f"{HERE}.codecs:PyTopK(ratio=0.01)", "topk(ratio=0.01)")
    assert same.exit_code == 0, same.output
    other = _run("compare", "fp16", "bf16")
    assert other.exit_code == 1
    assert "fp16 and bf16 differ by" in other.output
    assert "element" in other.output
    assert _run("compare", "fp16", "bf16", "--tolerance", "0.01").exit_code == 1  # greater values than fp16 has
    assert _run("compare", "onebit", "onebit").exit_code == 0


def test_what_is_no_codec_is_refused_with_a_sentence() -> None:
    for text, sentence in [
        ("nope", "codec 'nope' does not exist"),
        (f"{HERE}.codecs:Nope", "has no attribute 'Nope'"),
        ("no_such_module:Codec", "no_such_module:Codec is not there"),
        ("((", "is no codec: give a name"),
        ("powersgd", "codec powersgd has no encoding"),
    ]:
        result = _run("check", text)
        assert result.exit_code == 2
        assert sentence in result.output
    with pytest.raises(InvalidArgument, match="has no option"):
        codec_named(f"{HERE}.codecs:PyTopK(much=3)")

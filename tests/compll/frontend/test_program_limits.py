# SPDX-License-Identifier: Apache-2.0
"""The compiler refuses programs that are larger than any codec quickly, with the place, and in little memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hipress.compll import CompileError, compile_text
from hipress.compll.check.library import builtin_files
from hipress.compll.frontend.program_limits import MOST_CHARACTERS, MOST_LEVELS

DECODE = (
    "void XDecode(uint8* compressed, float* gradient) { extract(compressed, float v[gradient.size]); gradient = v; }\n"
)
REST = "void XEncode(float* gradient, uint8* compressed) { compressed = concat(gradient); }\n" + DECODE


def with_value(expression: str) -> str:
    return REST.replace("{ compressed", f"{{ float x = {expression}; compressed")


def with_statements(statements: str) -> str:
    return REST.replace("{ compressed", f"{{ {statements} compressed")


def refused(text: str) -> CompileError:
    """The compile error of a text. Checks that it comes within five seconds of this process's time."""
    compile_text(REST)  # the first compilation reads the grammar
    start = time.process_time()
    with pytest.raises(CompileError) as caught:
        compile_text(text, "x.cll")
    assert time.process_time() - start < 5
    error = caught.value
    assert str(error).startswith(f"x.cll:{error.line}:{error.column}: error: ")
    assert len(str(error)) < 1000
    return error


@pytest.mark.parametrize(
    "text",
    [
        with_value("(" * 200_000 + "1.0" + ")" * 200_000),
        with_value("(" * 200_000),
        with_value("1.0" + " + 1.0" * 50_000),
        with_value("1" * 1_000_000),
        with_value("-" * 100_000 + "1.0"),
        with_value("true ? 1.0 : " * 20_000 + "1.0"),
        with_value("abs(" * 20_000 + "1.0" + ")" * 20_000),
        with_statements("if (true) {" * 20_000 + "}" * 20_000),
        "".join(f"float f{i}(float x) {{ return x; }}\n" for i in range(100_000)) + REST,
        "param P {\n" + "".join(f"int32 p{i} = 1;\n" for i in range(100_000)) + "}\n" + REST,
        "/*" + "*" * 1_000_000 + REST,
        "\n" * 1_000_000 + REST,
        "@" * 1_000_000,
    ],
    ids=lambda text: text[:30].strip() or "spaces",
)
def test_a_long_program(text: str) -> None:
    assert refused(text).message == f"this program is longer than {MOST_CHARACTERS} characters"


def test_the_place_is_the_first_character_too_many() -> None:
    error = refused("//\n" * 10_000 + "x" * (MOST_CHARACTERS - 30_000) + "yz")
    assert (error.line, error.column) == (10_001, MOST_CHARACTERS - 30_000 + 1)
    assert "xyz" in str(error)
    compile_text(REST + "/" * (MOST_CHARACTERS - len(REST)))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (with_value("1.0" + "+1.0" * 5_000), "1.0+"),
        (with_value("-" * 10_000 + "1.0"), "-"),
        (with_value("true ? 1.0 : " * 2_000 + "1.0"), "true"),
        (with_value("(float)" * 3_000 + "1.0"), "float)"),
        (with_value("abs(" * 5_000 + "1.0" + ")" * 5_000), "abs("),
        (with_value("gradient" + ".size" * 5_000), "gradient"),
        (with_value("gradient" + "[0]" * 5_000), "gradient"),
        (with_statements("if (true) {" * 2_000 + "}" * 2_000), "if"),
        (with_statements("if (true) {}" + " else if (true) {}" * 1_500), "true"),
    ],
    ids=["sum", "signs", "conditionals", "casts", "calls", "attributes", "indices", "blocks", "else"],
)
def test_a_deep_program(text: str, place: str) -> None:
    error = refused(text)
    assert error.message == f"this program is nested too deeply: more than {MOST_LEVELS} levels"
    assert text[error.column - 1 :].startswith(place)
    assert error.line == 1


def test_levels_that_fit_are_compiled() -> None:
    compile_text(with_value("1.0" + "+1.0" * (MOST_LEVELS - 10)))
    compile_text(with_value("(" * 1_000 + "1.0" + ")" * 1_000))


def test_functions_that_call_functions() -> None:
    def calling(count: int) -> str:
        functions = "".join(f"float f{i + 1}(float x) {{ return f{i}(x) + 1.0; }}\n" for i in range(count))
        start = "float f0(float x) { return x; }\n" + functions
        return start + REST.replace("concat(gradient)", f"concat(map(gradient, f{count}))")

    compile_text(calling(50))
    error = refused(calling(500))
    assert error.message == "this program is nested too deeply"
    assert error.line > 1


@pytest.mark.parametrize("word", ["1" * 10_000, "1." + "1" * 10_000, "x" * 10_000])
def test_a_long_word(word: str) -> None:
    error = refused(with_value(word))
    assert (error.message, error.line) == ("this word is longer than 128 characters", 1)
    assert "longer than" in refused(REST.replace("(float* gradient, u", f"(uint<{word}>* gradient, u")).message


@pytest.mark.parametrize("number", ["1e39", "3.4028236e38", "1e99999"])
def test_a_number_that_no_float_is(number: str) -> None:
    assert refused(with_value(number)).message == f"{number} does not fit in float"
    compile_text(with_value("3.4028235e38"))


def test_a_width_of_many_parameters() -> None:
    names = [f"p{i}" for i in range(8)]
    params = "".join(f"int32 {name} = 1 in [0, 255];\n" for name in names)
    text = f"param P {{\n{params}}}\n" + REST.replace("uint8* compressed) {", "uint8* compressed, P p) {", 1).replace(
        "{ compressed", f"{{ uint<{' + '.join(f'p.{name}' for name in names)}> w = 1; compressed"
    )
    assert refused(text).message.endswith("have too many values together for a width")


@pytest.mark.slow
def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "huge.cll"
    with open(file, "wb") as writing:
        writing.truncate(4 << 30)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    for command in (["check", str(file)], ["stats", str(file)], ["build", str(file), "-b", "-o", str(tmp_path)]):
        done = subprocess.run(
            [sys.executable, "-m", "hipress.cli", "compll", *command],
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=limited,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        assert f"{file}:1:{MOST_CHARACTERS + 1}: error: this program is longer than" in done.stderr


def test_what_comes_with_hipress_is_far_below() -> None:
    assert max(len(path.read_text()) for path in builtin_files().values()) * 10 < MOST_CHARACTERS

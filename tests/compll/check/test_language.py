# SPDX-License-Identifier: Apache-2.0
"""The front end: programs that parse, their IR, parameters, and that a wrong program raises CompileError only."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipress.compll import CompileError, Interpreter, compile_builtin, compile_text, ir
from hipress.errors import InvalidArgument
from tests.compll.programs import encoder, floats


def body_of(text: str) -> tuple[ir.Statement, ...]:
    program = compile_text(f"void XEncode(float* gradient, uint8* compressed) {{\n{text}\n}}", complete=False)
    assert program.encode is not None
    return program.encode.body


def test_ir_of_a_program() -> None:
    total, message = body_of("float m = sum(gradient) / gradient.size; /* mean */\ncompressed = concat(m); // done")[
        0::2
    ]
    assert isinstance(total, ir.Let)
    assert isinstance(total.value, ir.Reduce)
    assert total.type == ir.DOUBLE
    assert total.span.line == 2
    assert isinstance(message, ir.WriteMessage)
    assert message.items == (ir.Var(name="m", type=ir.FLOAT, span=total.span),), "positions do not count in comparisons"


def test_conversions_are_explicit() -> None:
    (let, _) = body_of("float x = gradient[0] * gradient.size;\ncompressed = concat(x);")
    assert isinstance(let, ir.Let)
    assert isinstance(let.value, ir.Binary)
    assert isinstance(let.value.right, ir.Cast)
    assert let.value.right.type == ir.FLOAT


def test_names_of_functions_are_free() -> None:
    run = encoder("float min = 2; float sum = 3; float size = max(min, sum);\ncompressed = concat(size);")
    assert run.encode(floats(1)) == floats(3).tobytes()


@pytest.mark.parametrize(
    "body",
    [
        "float x = sum(gradient); float y = x; compressed = concat(x, y);",
        "float* v = map(gradient, abs); float* w = v; compressed = concat(v.size, w);",
        "float* v = map(gradient, abs); residual = v; compressed = concat(map(v, residual, max));",
    ],
)
def test_a_value_with_a_name_keeps_it_when_it_gets_another(body: str) -> None:
    """It could not be used by its first name any more: the compiler ended with KeyError."""
    signature = "state float* residual" if "residual" in body else ""
    assert len(encoder(body, signature).encode(floats(1, 2, 3))) > 0


def test_every_use_of_a_lambda_has_its_own_random_numbers() -> None:
    body = """
        lambda_func noise = [&](float x) -> float { return random<float>(0, 1); }
        float* a = map(gradient, noise);
        float* b = map(gradient, noise);
        compressed = concat(a, b);
    """
    message = encoder(body).encode(floats(1, 1))
    assert message[:8] != message[8:]


def test_named_functions() -> None:
    text = """
        (uint1, float) split(float x, float top) {
            float rest = x - top;
            return rest > 0, rest;
        }
        void XEncode(float* gradient, uint8* compressed) {
            (uint1* over, float* rest) = map(gradient, fill(gradient.size, 1.0), split);
            compressed = concat(over, rest);
        }
    """
    run = Interpreter(compile_text(text, complete=False))
    assert run.encode(floats(0, 2)) == b"\x02" + floats(-1, 1).tobytes()


def test_width_of_a_bare_argument_has_a_range() -> None:
    text = """
        void XEncode(float* gradient, uint8* compressed, uint8 b) {
            uint<b>* q = map(gradient, [&](float x) -> uint<b> { return x; });
            compressed = concat(q);
        }
    """
    program = compile_text(text, complete=False)
    assert Interpreter(program, b=4).encode(floats(1, 99)) == b"\xf1"
    with pytest.raises(InvalidArgument, match=r"b=9 is not in {1, 2, 3, 4, 5, 6, 7, 8}"):
        Interpreter(program, b=9)
    with pytest.raises(InvalidArgument, match="'b' has no default"):
        Interpreter(program)


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"bitwith": 2}, "no parameter 'bitwith'; did you mean 'bitwidth'"),
        ({"bitwidth": "two"}, "is uint8, not 'two'"),
        ({"bitwidth": 2.5}, "is uint8, not 2.5"),
        ({"bitwidth": 300}, "does not fit in uint8"),
        ({"bitwidth": None}, "is uint8, not None"),
    ],
)
def test_wrong_parameters(params: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        Interpreter(compile_builtin("terngrad"), **params)


def test_parameters_from_text() -> None:
    assert Interpreter(compile_builtin("terngrad"), bitwidth="4", stochastic="false").params == {
        "bitwidth": 4,
        "stochastic": False,
        "block": 1024,
    }


WORDS = """
    void float uint8 uint2 uint uint3 int32 double bool state param lambda_func if else return extract random concat
    map reduce sum filter sort gather scatter take range fill spread reduce_blocks max abs require true in for while
    gradient compressed XEncode XDecode x y p size ( ) { } [ ] < > , ; = + - * / % & && ! ~ ? : . -> [&] 0 1 3 0.5 1e9
    99999999999 0x10 << == += ++ // /* */ @ # " '
"""
TOKENS = [*WORDS.split(), "\n"]
EDIT = st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from([*TOKENS, ""]))
START = [
    "",
    "void XEncode(float* gradient, uint8* compressed) {",
    "void XEncode(float* gradient, uint8* compressed, state float* x) { compressed = concat(gradient); x = map(x, ",
    "void XDecode(uint8* compressed, float* gradient) { extract(compressed, ",
    "param P { uint8 p = 1 in ",
    "float y(float x) { if (x > ",
]


def refuses_or_compiles(text: str) -> None:
    try:
        compile_text(text, complete=False)
    except CompileError as error:
        message = str(error)
        place = f"<text>:{error.line}:{error.column}: error: "
    else:
        return
    assert message.startswith(place)


@settings(max_examples=400, deadline=None)
@given(start=st.sampled_from(START), tokens=st.lists(st.sampled_from(TOKENS), max_size=40))
def test_token_soup(start: str, tokens: list[str]) -> None:
    refuses_or_compiles(start + " ".join(tokens))


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(["dgc", "onebit", "tbq", "terngrad"]),
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from([*TOKENS, ""])), min_size=1, max_size=4
    ),
)
def test_edited_programs(name: str, edits: list[tuple[float, int, str]]) -> None:
    from hipress.compll.check.library import builtin_files, read

    text = read(builtin_files()[name])
    for where, length, token in edits:
        at = int(where * len(text))
        text = text[:at] + token + text[at + length :]
    refuses_or_compiles(text)


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text(text: str) -> None:
    refuses_or_compiles(text)


def test_programs_that_double_with_each_line() -> None:
    lines = "".join(f"int x{i + 1} = x{i} + x{i};\n" for i in range(60))
    assert body_of(f"int x0 = 1;\n{lines}compressed = concat(x60);")
    functions = "".join(f"float f{i + 1}(float x) {{ return f{i}(x) + f{i}(x); }}\n" for i in range(30))
    with pytest.raises(CompileError, match="more than 10000 calls"):
        compile_text(
            f"float f0(float x) {{ return x; }}\n{functions}"
            "void XEncode(float* gradient, uint8* compressed) { compressed = concat(map(gradient, f30)); }",
            complete=False,
        )


@pytest.mark.parametrize("nest", ["(" * 3000 + "1" + ")" * 3000, "-" * 3000 + "1", "1" + "+1" * 5000])
def test_deep_nesting(nest: str) -> None:
    refuses_or_compiles(f"void XEncode(float* gradient, uint8* compressed) {{ float x = {nest}; }}")

# SPDX-License-Identifier: Apache-2.0
"""Programs and inputs that the tests of CompLL share."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import Interpreter, compile_builtin, compile_file, compile_text, ir

ROOT = Path(__file__).parents[2]
SIZES = [0, 1, 2, 7, 8, 9, 15, 16, 17, 255, 1023, 1024, 1025]
BUILTIN = [
    "bf16",
    "dgc",
    "dynamiq",
    "efsignsgd",
    "fp4_e2m1",
    "fp8_e4m3",
    "fp8_e5m2",
    "graddrop",
    "int4",
    "int8",
    "int8_shared",
]
BUILTIN += ["natural", "onebit", "qsgd", "randomk", "tbq", "terngrad", "thc", "threshold", "topk", "u8bit"]
EXAMPLES = ["adacomp", "blockquant4", "demo", "eden", "inceptionn", "linear_dithering", "natural_dithering"]
EXAMPLES += ["signsgd", "sparseloco", "threelc"]
UNBIASED = ["bf16", "terngrad", "natural_dithering", "linear_dithering", "eden"]
#: Codecs with a residual: a rank keeps the difference between its values and its message.
#: demo keeps a momentum, which decays, and signsgd has no state.
BIASED = [name for name in [*BUILTIN, *EXAMPLES] if name not in (*UNBIASED, "demo", "signsgd")]
#: Parameter values that give a residual to codecs whose defaults have none.
_STATELESS = ("int8", "fp8_e4m3", "fp8_e5m2", "qsgd", "natural", "u8bit", "dynamiq")
FEEDBACK = {name: {"error_feedback": True} for name in _STATELESS}


def codec(name: str, **params: Any) -> Interpreter:
    """The interpreter of a built-in codec or of an example."""
    return Interpreter(compiled(name), **params)


@cache
def compiled(name: str) -> ir.Program:
    """A built-in codec or an example."""
    if name in EXAMPLES:
        return compile_file(ROOT / "examples" / "compll" / f"{name}.cll")
    return compile_builtin(name)


def encoder(body: str, signature: str = "", **params: Any) -> Interpreter:
    """The interpreter of a program that has only an encode, with this body."""
    arguments = "float* gradient, uint8* compressed" + (f", {signature}" if signature else "")
    return Interpreter(compile_text(f"void XEncode({arguments}) {{\n{body}\n}}", complete=False), **params)


def decoder(body: str) -> Interpreter:
    """The interpreter of a program that has only a decode, with this body."""
    text = f"void XDecode(uint8* compressed, float* gradient) {{\n{body}\n}}"
    return Interpreter(compile_text(text, complete=False))


def floats(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def evaluated(expression: str, type_: str = "float", gradient: NDArray[np.float32] | None = None) -> Any:
    """The value of a scalar expression, read from the message."""
    run = encoder(f"{type_} x = {expression};\ncompressed = concat(x);")
    message = run.encode(floats(1, 2, 3) if gradient is None else gradient)
    return np.frombuffer(message, {"float": "<f4", "int": "<i4"}.get(type_, "u1"))[0]


def vector(expression: str, type_: str, gradient: NDArray[np.float32], before: str = "") -> NDArray[Any]:
    """The value of a vector expression with elements of type float or int."""
    run = encoder(f"{before}\n{type_}* x = {expression};\ncompressed = concat(x.size, x);")
    return np.frombuffer(run.encode(gradient), {"float": "<f4", "int": "<i4"}[type_])[1:]


def normal(count: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)

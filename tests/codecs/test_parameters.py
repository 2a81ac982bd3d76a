# SPDX-License-Identifier: Apache-2.0
"""A codec's functions on GPUs get the values of the program's parameters in the program's order."""

from __future__ import annotations

import numpy as np

from hipress import _core
from hipress.compll import compile_builtin, ir
from tests.cases import each
from tests.codecs.builtin import TEXTS, builtin


def as_stored(param: ir.Param, value: float) -> float:
    return float(np.float32(value)) if param.type.kind == "float" else float(value)


@each("text", TEXTS)
def test_values_are_those_of_the_options(text: str) -> None:
    of = builtin(text)
    assert of.codec.for_aggregate().gradient_factor == 1
    params = compile_builtin(of.name).params
    values = {param.name: of.definition.params[param.name] for param in params}
    assert of.codec.parameters == [as_stored(param, values[param.name]) for param in params]
    merged = {param.name: values[param.name] if param.merged is None else param.merged for param in params}
    assert of.codec.for_aggregate().parameters == [as_stored(param, merged[param.name]) for param in params]


def test_codecs_that_are_no_programs_have_none() -> None:
    assert _core.create_codec("fp16").parameters == []

# SPDX-License-Identifier: Apache-2.0
"""`hipress compll try`: what a program makes of a few values, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from hipress.compll import Interpreter, builtin_files, compile_builtin, compile_file
from hipress.errors import InvalidArgument

#: More values than these are no longer read by people.
MOST_VALUES = 1024


def lines(file: str, values: Sequence[float], *, steps: int, seed: int, params: Mapping[str, str]) -> Iterator[str]:
    """What encoding and decoding `values` gives in each of `steps` steps, with what the states keep.

    Args:
        file: a .cll file, or the name of a built-in codec.
        values: float32 after rounding; the gradient of every step.
        params: options of the codec.

    Raises:
        InvalidArgument: there are no values or too many, or no step.
        CompileError: the program is wrong.
    """
    if not 0 < len(values) <= MOST_VALUES:
        raise InvalidArgument(f"give 1 to {MOST_VALUES} values, not {len(values)}: hipress compll run reads files")
    if steps < 1:
        raise InvalidArgument(f"--steps {steps}: expected 1 or more")
    program = compile_builtin(file) if file in builtin_files() else compile_file(Path(file))
    codec = Interpreter(program, **params)
    gradient = np.array(values, np.float32)
    states = codec.new_state(len(gradient))
    yield f"gradient  {_shown(gradient)}"
    for step in range(steps):
        message = codec.encode(gradient, states, seed=seed, step=step)
        if steps > 1:
            yield f"step {step + 1}"
        yield f"message   {len(message)} bytes: {message.hex(' ')}"
        yield f"decoded   {_shown(codec.decode(message, len(gradient)))}"
        yield from (f"{name:<9} {_shown(kept)}" for name, kept in states.items())


def _shown(values: Iterable[np.float32]) -> str:
    # The shortest text of six digits: exact for the values of small examples.
    return " ".join(f"{value + 0.0:.6g}" for value in values)

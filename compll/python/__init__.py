# SPDX-License-Identifier: Apache-2.0
"""CompLL: codecs written in a small language. docs/extending/codec.md teaches it.

program = compile_file("my.cll")
codec = Interpreter(program, bitwidth=2)
message = codec.encode(gradient, seed=1)
"""

from __future__ import annotations

import hipress.compll.operators.table  # noqa: F401  (tells each stage of the compiler its part of the operators)
from hipress.compll.check.library import builtin_files, compile_builtin, compile_file
from hipress.compll.check.program import compile_text
from hipress.compll.ir.source import CompileError
from hipress.compll.reference.interpreter import Interpreter

__all__ = ["CompileError", "Interpreter", "builtin_files", "compile_builtin", "compile_file", "compile_text"]

# SPDX-License-Identifier: Apache-2.0
"""CompLL: codecs written in a small language. docs/extending/codec.md teaches it.

program = compile_file("my.cll")
codec = Interpreter(program, bitwidth=2)
message = codec.encode(gradient, seed=1)
"""

from __future__ import annotations

from hipress.compll.interpret import Interpreter
from hipress.compll.library import builtin_files, compile_builtin, compile_file
from hipress.compll.source import CompileError
from hipress.compll.typecheck import compile_text

__all__ = ["CompileError", "Interpreter", "builtin_files", "compile_builtin", "compile_file", "compile_text"]

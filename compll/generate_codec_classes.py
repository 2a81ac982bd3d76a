# SPDX-License-Identifier: Apache-2.0
"""Writes bindings/python/codecs/builtin.py from the declarations of the built-in codecs.

python compll/generate_codec_classes.py
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from hipress import _core

FILE = Path(__file__).parents[1] / "bindings" / "python" / "codecs" / "builtin.py"
#: The class of each codec.
CLASSES = {
    "bf16": "BF16",
    "dgc": "DGC",
    "dynamiq": "DynamiQ",
    "efsignsgd": "EFSignSGD",
    "fp16": "FP16",
    "fp4_e2m1": "FP4E2M1",
    "fp8_e4m3": "FP8E4M3",
    "fp8_e5m2": "FP8E5M2",
    "graddrop": "GradDrop",
    "int4": "Int4",
    "int8": "Int8",
    "int8_shared": "Int8Shared",
    "natural": "Natural",
    "none": "Uncompressed",
    "onebit": "OneBit",
    "powersgd": "PowerSGD",
    "qsgd": "QSGD",
    "randomk": "RandomK",
    "tbq": "TBQ",
    "terngrad": "TernGrad",
    "thc": "THC",
    "threshold": "Threshold",
    "topk": "TopK",
    "u8bit": "U8Bit",
}
#: Types of options whose declaration has no type.
TYPES = {("powersgd", "rank"): "int", ("powersgd", "min_ratio"): "float"}
HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""The built-in codecs. compll/generate_codec_classes.py writes this file from their declarations.

It is longer than 500 lines because it has a class for each codec.
"""

# fmt: off

from __future__ import annotations

from typing import TYPE_CHECKING

from hipress.codecs.typed import Codec

if TYPE_CHECKING:
    from typing_extensions import Self
'''


def type_of(codec: str, option: _core.CodecOption) -> str:
    """The Python type of an option, by the end of its meaning."""
    meaning = option["meaning"]
    if re.search(r"(bool|true or false\.?)$", meaning) or option["default"] in ("true", "false"):
        return "bool"
    found = re.search(r"\b(float|double|u?int\d*) in ", meaning)
    if found is None:
        return TYPES[codec, option["name"]]
    return "float" if found[1] in ("float", "double") else "int"


def value_of(kind: str, default: str) -> str:
    """The default as Python writes it."""
    if kind == "bool":
        return default.capitalize()
    return repr(float(default)) if kind == "float" else default


def wrapped(start: str, arguments: Sequence[str], end: str) -> list[str]:
    """A call in lines of at most 120 characters."""
    indent = " " * len(start)
    lines = [start]
    for number, argument in enumerate(arguments):
        last = number + 1 == len(arguments)
        piece = argument + (end if last else ",")
        if lines[-1].strip() and len(lines[-1]) + 1 + len(piece) > 120:
            lines.append(indent)
        space = "" if lines[-1] in (start, indent) else " "
        lines[-1] += space + piece
    return lines


def class_of(codec: _core.CodecDescription) -> str:
    """The class of a codec."""
    name = codec["name"]
    kinds = {option["name"]: type_of(name, option) for option in codec["options"]}
    lines = textwrap.wrap(codec["summary"], 110)
    text = [f"class {CLASSES[name]}(Codec):", '    """' + "\n    ".join(lines)]
    if kinds:
        text += ["", "    Attributes:"]
        for option in codec["options"]:
            said = f"{option['name']}: {option['meaning']}"
            text += textwrap.wrap(said, 116, initial_indent=" " * 8, subsequent_indent=" " * 12)
        text += ['    """', "", *(f"    {option}: {kind}" for option, kind in kinds.items()), ""]
    else:
        text[-1] += '"""'
        text += [""]
    given = ["cls", "*"] if kinds else ["cls"]
    for option in codec["options"]:
        kind = kinds[option["name"]]
        given.append(f"{option['name']}: {kind} = {value_of(kind, option['default'])}")
    text += [*wrapped("    def __new__(", given, ") -> Self:")]
    text += [
        *wrapped("        return super().__new__(", ["cls", f'"{name}"', *(f"{each}={each}" for each in kinds)], ")")
    ]
    return "\n".join(text) + "\n"


def _isort_key(name: str) -> tuple[Any, ...]:
    """The order in which ruff sorts names: first those in capitals; numbers by their value."""
    parts = re.split(r"(\d+)", name)
    return not name.isupper(), *(int(part) if part.isdigit() else part for part in parts)


def generated() -> str:
    """The text of the file, before ruff formats it."""
    codecs = sorted([*_core.describe_codecs(), *_core.describe_codecs(False)], key=lambda codec: codec["name"])
    codecs = [codec for codec in codecs if codec["name"] in CLASSES]
    names = ",\n".join(f'    "{name}"' for name in sorted((CLASSES[codec["name"]] for codec in codecs), key=_isort_key))
    return "\n\n".join([HEAD, *map(class_of, codecs), f"__all__ = [\n{names},\n]\n"])


if __name__ == "__main__":
    FILE.write_text(generated())

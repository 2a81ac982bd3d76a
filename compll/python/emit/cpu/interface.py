# SPDX-License-Identifier: Apache-2.0
"""A codec's name, states and options in C++: their descriptions, and how the options' values are read."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.emit.origin import Origin
from hipress.compll.emit.scope import c_type
from hipress.compll.ir.expressions import limits


def _quoted(text: str) -> str:
    """A string literal. Characters that a literal cannot have become blanks."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return '"' + printable.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _default(param: ir.Param) -> str:
    if param.default is None:
        return ""
    if param.type.kind == "bool":
        return "true" if param.default else "false"
    return f"{param.default:.9g}"


def _meaning(param: ir.Param, text: str) -> str:
    """The comment after the parameter, its type and its range."""
    comment = text.split("\n")[param.span.line - 1].partition("//")[2].strip()
    values = f"{param.type}" + (f" in {param.domain}" if param.domain is not None else "")
    return f"{comment[:1].upper()}{comment[1:]}: {values}" if comment else values


def interface_function(program: ir.Program, origin: Origin) -> str:
    assert program.encode is not None
    options = []
    for p in program.params:
        if p.implicit:  # core/codec/generated_codec.cc describes it
            continue
        options.append(f"{{{_quoted(p.name)}, {_quoted(_default(p))}, {_quoted(_meaning(p, origin.text))}}}")
    states = ", ".join(f"{{{_quoted(s)}, {program.encode.block_of_state(s)}}}" for s in program.encode.states)
    return f"""const GeneratedCodecInterface& interface() {{
  static const GeneratedCodecInterface face{{
      {_quoted(program.name)},
      {origin.codec_id(program.name)}u,
      {_quoted(origin.summary)},
      {{{", ".join(options)}}},
      {{{states}}},
      {_quoted("" if origin.builtin else origin.fingerprint)}}};
  return face;
}}
"""


def _interval(domain: ir.Domain) -> str:
    low, high = (repr(float(v)).replace("inf", "INFINITY") for v in (domain.low, domain.high))
    return f"Interval{{{low}, {high}, {str(domain.low_open).lower()}, {str(domain.high_open).lower()}}}"


def option_values(program: ir.Program) -> list[str]:
    lines = []
    for p in program.params:
        c = c_type(p.type)
        if p.type.kind == "bool":
            lines.append(f'params.p_{p.name} = options.boolean("{p.name}");')
            continue
        kind = "number" if p.type.kind in ("float", "double") else "integer"
        check = ""
        if p.implicit:
            assert p.domain is not None
            lines.append(
                f'params.p_{p.name} = static_cast<{c}>(checkedFactor(options, "{p.name}", {_interval(p.domain)}));'
            )
            continue
        if p.domain is not None and p.domain.values is not None:
            check = f", OneOf{{{', '.join(f'{float(v)!r}' for v in p.domain.values)}}}"
        elif p.domain is not None:
            check = f", {_interval(p.domain)}"
        elif p.type.kind in ("uint", "int"):
            least, greatest = limits(p.type)
            check = f", Interval{{{least}.0, {greatest}.0, false, false}}"
        value = f'options.{kind}("{p.name}")'
        lines.append(f'params.p_{p.name} = static_cast<{c}>(checkedOption(options, "{p.name}", {value}{check}));')
    return lines

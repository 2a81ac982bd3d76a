# SPDX-License-Identifier: Apache-2.0
"""A program as a C++ file: a class of the core's codec interface, with its kernels for processors."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from hipress.compll import ir
from hipress.compll.emit_bounds import emit_bound
from hipress.compll.emit_cpu_steps import Steps
from hipress.compll.emit_function import Function
from hipress.compll.emit_scope import c_type, constant
from hipress.compll.finite import states_guard_gradient
from hipress.compll.fuse import fuse

# Numbers on the wire of the codecs that come with HiPress; docs/wire-format.md.
BUILTIN_IDS = {"onebit": 16, "tbq": 17, "terngrad": 18, "dgc": 19, "graddrop": 20}
_FIRST_USER_ID = 1024

# What the frames have of the codec's arguments.
_COMMON = (
    "size_t n = 0;",
    "Params params;",
    "Parallel* parallel = nullptr;",
    "ops::Scratch scratch;",
    "std::atomic<int64_t> bad{0};",
)
_ENCODING = (
    "const float* gradient = nullptr;",
    "float scale = 1;",
    "ops::RandomKey random;",
    "bool stream = false;",
    "uint8_t* message = nullptr;",
    "size_t bytes = 0;",
)
_DECODING = ("float* output = nullptr;",)


@dataclass(frozen=True)
class Origin:
    """Where a program comes from. `fingerprint`: of its text, so that ranks with different ones notice."""

    file: str
    text: str
    builtin: bool = False

    @property
    def fingerprint(self) -> str:
        return f"{zlib.crc32(self.text.encode()):08x}"

    def codec_id(self, name: str) -> int:
        if self.builtin:
            return BUILTIN_IDS[name]
        return _FIRST_USER_ID + zlib.crc32(f"{name} {self.text}".encode()) % (2**32 - _FIRST_USER_ID)


def summary(text: str) -> str:
    """The comment at the top of a program."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        if "SPDX" not in line:
            lines.append(line.lstrip("/ ").rstrip())
    return " ".join(lines)


def emit_codec(program: ir.Program, origin: Origin) -> str:
    """The C++ file; `describe` and `create` in namespace hipress::generated::codec_<name> are its interface."""
    assert program.encode is not None
    assert program.decode is not None
    encode_plan, encode_vectors = fuse(program.encode)
    decode_plan, decode_vectors = fuse(program.decode)
    encode = Function(encode_vectors, decoding=False)
    decode = Function(decode_vectors, decoding=True)
    encode.gradient_checked = states_guard_gradient(encode_plan.steps, encode_vectors)
    items = next(s.items for s in program.encode.body if isinstance(s, ir.WriteMessage))
    encode_lines = Steps(encode, program.name).emit(encode_plan.steps, items)
    if not encode.gradient_checked:
        encode_lines.append("if (!ops::allFiniteScaled(f.gradient, f.n, f.scale)) return 0;")
    decode_lines = Steps(decode, program.name).emit(decode_plan.steps)
    bound = emit_bound(program.encode, Function(encode_vectors, decoding=False).vectors)
    states = program.encode.states
    for state in states:
        encode.member(f"before_{encode.names(state)}", "const float*", " = nullptr")
        encode.member(f"after_{encode.names(state)}", "float*", " = nullptr")
    return f"""// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from {origin.file}.
#include "core/codec/generated_codec.h"
#include "core/ops/cpu/generated.h"

namespace hipress::generated::codec_{program.name} {{
namespace {{

using namespace hipress::ops;

{_interface(program, origin)}
{_params(program)}
namespace encoding {{

{_frame(encode, _ENCODING)}
{_functions(encode)}
}}  // namespace encoding

namespace decoding {{

{_frame(decode, _DECODING)}
{_functions(decode)}
}}  // namespace decoding

class {_class(program)} final : public GeneratedCodec {{
 public:
  {_class(program)}(const CodecOptions& given, const Params& values, bool keepsStates)
      : GeneratedCodec(interface(), given, keepsStates), params(values){_kept(program)} {{}}
{_for_aggregate(program)}
  std::vector<double> parameters() const override {{
    return {{{_values(program)}}};
  }}

 protected:
  size_t bound(size_t n) const override {{
{_indented(bound, 4)}
  }}

  size_t encodeValues(std::span<const float> input, const EncodeStates& states, const EncodeContext& context,
                      Bytes output) const override {{
    return states.before.empty() ? encodeWith<false>(input, states, context, output)
                                 : encodeWith<true>(input, states, context, output);
  }}

  void decodePayload(ConstBytes payload, std::span<float> output, DecodeMode mode,
                     Parallel* parallel) const override {{
    return mode == DecodeMode::kAccumulate ? decodeWith<true>(payload, output, parallel)
                                           : decodeWith<false>(payload, output, parallel);
  }}

 private:
  template <bool kStates>
  size_t encodeWith(std::span<const float> input, [[maybe_unused]] const EncodeStates& states,
                    const EncodeContext& context, Bytes output) const {{
    using namespace encoding;
    Frame f;
    f.n = input.size();
    f.params = params;
    f.parallel = context.parallel;
    f.gradient = input.data();
    f.scale = context.scale;
    f.random = {{context.seed, context.step, context.tensor, context.firstElement}};
    f.stream = input.size() >= ops::kStreamFrom;
    f.message = reinterpret_cast<uint8_t*>(output.data());
{_indented(_state_pointers(encode, states), 4)}
{_indented(encode_lines, 4)}
    return f.bad.load(std::memory_order_relaxed) == 0 ? f.bytes : 0;
  }}

  template <bool kAccumulate>
  void decodeWith(ConstBytes payload, std::span<float> output, Parallel* parallel) const {{
    using namespace decoding;
    checkCount(output.size());
    Frame f;
    f.n = output.size();
    f.params = params;
    f.parallel = parallel;
    f.output = output.data();
    [[maybe_unused]] ops::PayloadReader reader(name(), payload, f.scratch);
{_indented(decode_lines, 4)}
  }}

  const Params params;
{"  const CodecOptions options;" if _merged(program) else ""}
}};

}}  // namespace

CodecDescription describe() {{
  return describeGenerated(interface());
}}

CodecPointer create([[maybe_unused]] const CodecOptions& options) {{
  Params params;
{_indented(_options(program), 2)}
  return std::make_shared<{_class(program)}>(options, params, {_keeps(states)});
}}

}}  // namespace hipress::generated::codec_{program.name}
"""


def emit_plugin(program: ir.Program, origin: Origin) -> str:
    """What makes a codec's file a library that can be loaded."""
    return f"""
extern "C" __attribute__((visibility("default"))) const hipress::CodecPlugin* hipress_codec_plugin() {{
  static const hipress::CodecPlugin plugin{{hipress::kCodecPluginAbi, __VERSION__,
                                            &hipress::generated::codec_{program.name}::describe,
                                            &hipress::generated::codec_{program.name}::create, "{origin.fingerprint}"}};
  return &plugin;
}}
"""


def _class(program: ir.Program) -> str:
    return program.name[:1].upper() + program.name[1:] + "Codec"


def _indented(lines: list[str], by: int) -> str:
    text = "\n".join(lines)
    return "\n".join(" " * by + line if line else line for line in text.split("\n"))


def _params(program: ir.Program) -> str:
    members = "".join(f"  {c_type(p.type)} p_{p.name}{{}};\n" for p in program.params)
    return f"struct Params {{\n{members}}};\n"


def _frame(function: Function, own: tuple[str, ...]) -> str:
    return "struct Frame {\n" + _indented([*_COMMON, *own, *function.members.values()], 2) + "\n};\n"


def _functions(function: Function) -> str:
    declarations = "".join(text.split("{\n", 1)[0].rstrip() + ";\n" for text in function.at_functions.values())
    functors = "".join(f"struct {name} {{\n{text}}};\n\n" for name, text in function.functors.items())
    return "\n".join([declarations, *function.at_functions.values(), functors, *function.kernels])


def _state_pointers(function: Function, states: tuple[str, ...]) -> list[str]:
    lines = []
    for number, state in enumerate(states):
        name = function.names(state)
        lines.append(f"f.before_{name} = kStates ? states.before[{number}] : nullptr;")
        lines.append(f"f.after_{name} = kStates ? states.after[{number}] : nullptr;")
    return lines


def _merged(program: ir.Program) -> list[ir.Param]:
    return [param for param in program.params if param.merged is not None]


def _kept(program: ir.Program) -> str:
    return ", options(given)" if _merged(program) else ""


def _for_aggregate(program: ir.Program) -> str:
    """Momentum, for example, is not applied a second time to what has been merged."""
    if not _merged(program):
        return ""
    values = "".join(f"    merged.p_{p.name} = {constant(p.merged or 0, p.type)};\n" for p in _merged(program))
    return f"""
  std::shared_ptr<const Codec> forAggregate() const override {{
    Params merged = params;
{values}    return std::make_shared<{_class(program)}>(options, merged, !states().empty());
  }}
"""


def _values(program: ir.Program) -> str:
    return ", ".join(f"static_cast<double>(params.p_{p.name})" for p in program.params)


def _keeps(states: tuple[str, ...]) -> str:
    return 'options.boolean("error_feedback")' if states else "false"


def _quoted(text: str) -> str:
    """A string literal; characters that cannot stand in one become blanks."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return '"' + printable.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _default(param: ir.Param) -> str:
    if param.default is None:
        return ""
    if param.type.kind == "bool":
        return "true" if param.default else "false"
    return f"{param.default:.9g}"


def _meaning(param: ir.Param, text: str) -> str:
    """The comment behind the parameter, its type and range."""
    comment = text.split("\n")[param.span.line - 1].partition("//")[2].strip()
    values = f"{param.type}" + (f" in {param.domain}" if param.domain is not None else "")
    return f"{comment[:1].upper()}{comment[1:]}: {values}" if comment else values


def _interface(program: ir.Program, origin: Origin) -> str:
    assert program.encode is not None
    options = []
    for p in program.params:
        options.append(f"{{{_quoted(p.name)}, {_quoted(_default(p))}, {_quoted(_meaning(p, origin.text))}}}")
    states = ", ".join(_quoted(s) for s in program.encode.states)
    return f"""const GeneratedCodecInterface& interface() {{
  static const GeneratedCodecInterface face{{
      {_quoted(program.name)},
      {origin.codec_id(program.name)}u,
      {_quoted(summary(origin.text))},
      {{{", ".join(options)}}},
      {{{states}}},
      {_quoted("" if origin.builtin else origin.fingerprint)}}};
  return face;
}}
"""


def _options(program: ir.Program) -> list[str]:
    lines = []
    for p in program.params:
        c = c_type(p.type)
        if p.type.kind == "bool":
            lines.append(f'params.p_{p.name} = options.boolean("{p.name}");')
            continue
        kind = "number" if p.type.kind in ("float", "double") else "integer"
        check = ""
        if p.domain is not None and p.domain.values is not None:
            check = f", OneOf{{{', '.join(f'{float(v)!r}' for v in p.domain.values)}}}"
        elif p.domain is not None:
            low, high = (repr(float(v)).replace("inf", "INFINITY") for v in (p.domain.low, p.domain.high))
            flags = f"{str(p.domain.low_open).lower()}, {str(p.domain.high_open).lower()}"
            check = f", Interval{{{low}, {high}, {flags}}}"
        elif p.type.kind == "uint":
            check = f", Interval{{0, {(1 << p.type.bits) - 1}, false, false}}"
        elif p.type.kind == "int":
            check = ", Interval{-2147483648.0, 2147483647.0, false, false}"
        value = f'options.{kind}("{p.name}")'
        lines.append(f'params.p_{p.name} = static_cast<{c}>(checkedOption(options, "{p.name}", {value}{check}));')
    return lines


def emit_builtins(names: list[str]) -> str:
    """The list of the codecs that come with HiPress."""
    functions = "CodecDescription describe();\nCodecPointer create(const CodecOptions& options);\n"
    declared = "".join(f"namespace codec_{name} {{\n{functions}}}\n" for name in names)
    entries = "".join(f"      {{codec_{name}::describe, codec_{name}::create}},\n" for name in names)
    return f"""// SPDX-License-Identifier: Apache-2.0
#include "core/codec/generated_builtins.h"

namespace hipress::generated {{

{declared}
std::span<const BuiltinCodec> builtins() {{
  static constexpr BuiltinCodec all[] = {{
{entries}  }};
  return all;
}}

}}  // namespace hipress::generated
"""

# SPDX-License-Identifier: Apache-2.0
"""A program as a C++ file: a class of the core's codec interface, with its kernels for processors."""

from __future__ import annotations

from collections.abc import Sequence

from hipress.compll import ir
from hipress.compll.emit.bounds import emit_bound
from hipress.compll.emit.cpu.encode import COMMON, encoding
from hipress.compll.emit.cpu.interface import interface_function, option_values
from hipress.compll.emit.cpu.steps import CpuSteps
from hipress.compll.emit.cpu.store import STORE
from hipress.compll.emit.cpu.summed import summed_codec
from hipress.compll.emit.function import Function
from hipress.compll.emit.origin import Origin
from hipress.compll.emit.scope import constant
from hipress.compll.emit.target import Target
from hipress.compll.emit.text import (
    definitions,
    frame_struct,
    gpu_table,
    indented,
    params_struct,
)
from hipress.compll.passes import plan
from hipress.compll.passes.fuse import fuse
from hipress.compll.passes.of_one_block import of_one_block

# Members of the frames that hold the codec's arguments.
_DECODING = ("float* output = nullptr;",)


class Cpu(Target):
    name, suffix = "cpu", ".cc"
    inline, method = "inline", ""
    least, order_key = "std::min", "ops::orderKey"

    def __init__(self) -> None:
        super().__init__()
        self.sinks[plan.StoreTo] = STORE

    def codec(self, program: ir.Program, origin: Origin) -> str:
        return _codec(program, origin)

    def codec_list(self, names: Sequence[str]) -> str:
        return _codec_list(names)


#: Processors.
CPU = Cpu()


def _codec(program: ir.Program, origin: Origin) -> str:
    """The C++ file; `describe` and `create` in namespace hipress::generated::codec_<name> are its interface."""
    assert program.encode is not None
    assert program.decode is not None
    encode = encoding(program.encode, CPU, "encoding")
    summed = summed_codec(program.encode, CPU)
    decode_plan, decode_vectors = fuse(program.decode)
    decode = Function(decode_vectors, CPU, decoding=True)
    decode.of_one_block = of_one_block(decode_vectors, decode_plan.steps)
    decode_lines = CpuSteps(decode).emit(decode_plan.steps)
    bound = emit_bound(program.encode, encode.vectors)
    states = program.encode.states
    merged = ", public MergedDecoded" if program.encode.merges_decoded else ""
    header = '#include "core/codec/merged_decoded.h"\n' if merged else ""
    return f"""// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from {origin.file}.
#include "core/codec/generated_codec.h"
{header}#include "core/ops/cpu/generated.h"

extern "C" const hipress::cuda::CudaCodec* {gpu_table(program.name)}();

namespace hipress::generated::codec_{program.name} {{
namespace {{

using namespace hipress::ops;

{interface_function(program, origin)}
{params_struct(program)}
{encode.definitions()}
{summed.definitions}namespace decoding {{

{frame_struct(decode, (*COMMON, *_DECODING))}
{definitions(decode)}
}}  // namespace decoding

class {_class(program)} final : public GeneratedCodec{summed.base}{merged} {{
 public:
  {_class(program)}(const CodecOptions& given, const Params& values, bool keepsStates)
      : GeneratedCodec(interface(), given, keepsStates), params(values){_kept(program)} {{}}
{_for_aggregate(program)}
  std::vector<double> parameters() const override {{
    return {{{_values(program)}}};
  }}
{_gradient_factor(program)}  const cuda::CudaCodec* kernels() const override {{ return {gpu_table(program.name)}(); }}
{summed.members}
 protected:
  size_t bound(size_t n) const override {{
{_indented(bound, 4)}
  }}

  size_t encodeValues(std::span<const float> input, const EncodeStates& states, const EncodeContext& context,
                      Bytes output) const override {{
    return {encode.call("encodeWith", "input, states, context, output")};
  }}

  void decodePayload(ConstBytes payload, std::span<float> output, DecodeMode mode,
                     Parallel* parallel) const override {{
    return mode == DecodeMode::kAccumulate ? decodeWith<true>(payload, output, parallel)
                                           : decodeWith<false>(payload, output, parallel);
  }}

 private:
{encode.method("encodeWith")}
{summed.methods}  template <bool kAccumulate>
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
{_indented(option_values(program), 2)}
  return std::make_shared<{_class(program)}>(options, params, {_keeps(states)});
}}

}}  // namespace hipress::generated::codec_{program.name}
"""


def emit_plugin(program: ir.Program, origin: Origin) -> str:
    """The function by which HiPress loads the codec from a library."""
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
    return indented("\n".join(lines), by)


def _merged(program: ir.Program) -> list[ir.Param]:
    return [param for param in program.params if param.merged is not None]


def _kept(program: ir.Program) -> str:
    return ", options(given)" if _merged(program) else ""


def _for_aggregate(program: ir.Program) -> str:
    """The codec for merged gradients, which have momentum already, for example."""
    if not _merged(program):
        return ""
    values = "".join(f"    merged.p_{p.name} = {constant(p.merged or 0, p.type)};\n" for p in _merged(program))
    same = ""
    if all(param.implicit for param in _merged(program)):
        same = f"    if (params.p_{ir.GRADIENT_FACTOR} == 1.0f) return nullptr;\n"
    return f"""
  std::shared_ptr<const Codec> forAggregate() const override {{
{same}    Params merged = params;
{values}    return std::make_shared<{_class(program)}>(options, merged, !states().empty());
  }}
"""


def _gradient_factor(program: ir.Program) -> str:
    if not program.scales_gradients:
        return ""
    return f"  float gradientFactor() const override {{ return params.p_{ir.GRADIENT_FACTOR}; }}\n"


def _values(program: ir.Program) -> str:
    return ", ".join(f"static_cast<double>(params.p_{p.name})" for p in program.params)


def _keeps(states: tuple[str, ...]) -> str:
    return f'options.boolean("{ir.ERROR_FEEDBACK}")' if states else "false"


def _codec_list(names: Sequence[str]) -> str:
    """The list of the codecs that come with HiPress."""
    functions = "CodecDescription describe();\nCodecPointer create(const CodecOptions& options);\n"
    declared = "".join(f"namespace codec_{name} {{\n{functions}}}\n" for name in names)
    entries = "".join(f"      {{codec_{name}::describe, codec_{name}::create}},\n" for name in names)
    return f"""// SPDX-License-Identifier: Apache-2.0
#include "core/codec/builtin/generated_builtins.h"

namespace hipress::generated {{

{declared}
std::span<const BuiltinCodec> builtins() {{
  static constexpr BuiltinCodec all[] = {{
{entries}  }};
  return all;
}}

}}  // namespace hipress::generated
"""

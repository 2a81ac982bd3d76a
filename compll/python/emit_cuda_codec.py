# SPDX-License-Identifier: Apache-2.0
"""A program as a CUDA file: the table of functions of core/ops/cuda/cuda_codec.h, and the kernels behind it."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.emit_bounds import emit_bound
from hipress.compll.emit_cpu_codec import Origin
from hipress.compll.emit_cuda_function import CudaFunction, indented
from hipress.compll.emit_cuda_steps import CudaSteps
from hipress.compll.emit_scope import c_type
from hipress.compll.finite import states_guard_gradient
from hipress.compll.fuse import fuse

_COMMON = (
    "size_t n = 0;",
    "Params params;",
    "uint32_t stop = 0;",
    "unsigned long long bad = 0;",
    "size_t bytes = 0;",
    "uint32_t ticket = 0;",
)
_ENCODING = (
    "const float* gradient = nullptr;",
    "float scale = 1;",
    "ops::RandomKey random;",
    "uint8_t* message = nullptr;",
    "uint32_t* messageBytes = nullptr;",
    "uint32_t* error = nullptr;",
)
_DECODING = (
    "const uint8_t* payload = nullptr;",
    "const uint32_t* payloadBytes = nullptr;",
    "size_t capacity = 0;",
    "float* output = nullptr;",
    "uint32_t* error = nullptr;",
)


def table_function(name: str) -> str:
    """The name of the C function that gives a codec's table."""
    return f"hipress_cuda_codec_{name}"


def emit_cuda_codec(program: ir.Program, origin: Origin) -> str:
    """The file. It has no anonymous namespace, so that reports name its kernels."""
    assert program.encode is not None
    assert program.decode is not None
    encode, encode_host, sorts = _encode(program.encode, program.name)
    decode, decode_host, decode_sorts = _decode(program.decode, program.name, encode.refusals)
    sort = '#include "core/ops/cuda/sort.h"\n' if sorts or decode_sorts else ""
    reasons = ", ".join(f'"{text}"' for text in encode.refusals)
    states = program.encode.states
    some = "call.before != nullptr" if states else "false"
    with_states = "encodeWith<true>" if states else "encodeWith<false>"
    return f"""// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from {origin.file}.
#include "core/ops/cuda/generated.h"
{sort}
namespace hipress::generated_cuda::codec_{program.name} {{

using namespace hipress;

{_params(program)}
namespace encoding {{

{_text(encode, _ENCODING)}
}}  // namespace encoding

namespace decoding {{

{_text(decode, _DECODING)}
}}  // namespace decoding

inline size_t bound([[maybe_unused]] size_t n, [[maybe_unused]] const Params& params) {{
{indented(chr(10).join(emit_bound(program.encode, encode.vectors)), 2)}
}}

/// Without `call`, only the bytes of scratch memory.
template <bool kStates>
size_t encodeWith(const cuda::CudaEncode* call, size_t n, const Params& params,
                  [[maybe_unused]] cuda::Stream stream) {{
  using namespace encoding;
{indented(_memory(encode), 2)}
  initial.gradient = call->gradient;
  initial.scale = call->scale;
  initial.random = {{call->seed, call->step, call->tensor, call->firstElement}};
  initial.message = call->message;
  initial.messageBytes = call->messageBytes;
  initial.error = call->error;
{indented(_state_pointers(encode, states), 2)}
{indented(encode_host, 2)}
  return arena.bytes();
}}

/// Without `call`, only the bytes of scratch memory.
template <bool kAccumulate>
size_t decodeWith(const cuda::CudaDecode* call, size_t n, size_t capacity, const Params& params,
                  [[maybe_unused]] cuda::Stream stream) {{
  using namespace decoding;
{indented(_memory(decode), 2)}
  initial.payload = call->payload;
  initial.payloadBytes = call->payloadBytes;
  initial.capacity = capacity;
  initial.output = call->output;
  initial.error = call->error;
{indented(decode_host, 2)}
  return arena.bytes();
}}

inline size_t maxEncodedBytes(const double* values, size_t count) {{
  return count == 0 ? 0 : bound(count, parameters(values));
}}

inline size_t encodeScratchBytes(const double* values, size_t count) {{
  return encodeWith<false>(nullptr, count, parameters(values), nullptr);
}}

inline size_t decodeScratchBytes(const double* values, size_t count, size_t capacity) {{
  return decodeWith<false>(nullptr, count, capacity, parameters(values), nullptr);
}}

inline void encode(const cuda::CudaEncode& call, cuda::Stream stream) {{
  if (call.count == 0) {{
    cuda::launch(stream, 1, cuda::Nothing{{call.messageBytes, nullptr, 0}});
    cuda::launch(stream, 1, cuda::Nothing{{call.error, nullptr, 0}});
  }} else if ({some}) {{
    {with_states}(&call, call.count, parameters(call.params), stream);
  }} else {{
    encodeWith<false>(&call, call.count, parameters(call.params), stream);
  }}
}}

inline void decode(const cuda::CudaDecode& call, cuda::Stream stream) {{
  if (call.count == 0) {{
    cuda::launch(stream, 1, cuda::Nothing{{call.error, call.payloadBytes, call.capacity}});
  }} else if (call.accumulate != 0) {{
    decodeWith<true>(&call, call.count, call.capacity, parameters(call.params), stream);
  }} else {{
    decodeWith<false>(&call, call.count, call.capacity, parameters(call.params), stream);
  }}
}}

inline const char* refusal(uint32_t error) {{
  static const char* const reasons[] = {{"none", {reasons}}};
  constexpr size_t known = sizeof(reasons) / sizeof(reasons[0]);
  return error < known ? reasons[error] : "unknown";
}}

}}  // namespace hipress::generated_cuda::codec_{program.name}

extern "C" __attribute__((visibility("default"))) const hipress::cuda::CudaCodec* {table_function(program.name)}() {{
  namespace codec = hipress::generated_cuda::codec_{program.name};
  static const hipress::cuda::CudaCodec table{{"{program.name}",
                                              {len(states)},
                                              {len(program.params)},
                                              &codec::maxEncodedBytes,
                                              &codec::encodeScratchBytes,
                                              &codec::decodeScratchBytes,
                                              &codec::encode,
                                              &codec::decode,
                                              &codec::refusal}};
  return &table;
}}
"""


def emit_cuda_codecs(names: list[str]) -> str:
    """The list of the codecs in libhipress_cuda."""
    functions = [table_function(name) for name in names]
    declared = "".join(f"const hipress::cuda::CudaCodec* {function}();\n" for function in functions)
    entries = "".join(f"      {function}(),\n" for function in functions)
    return f"""// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/builtin_codecs.h"

extern "C" {{
{declared}}}

namespace hipress::cuda {{

std::vector<const CudaCodec*> builtinCodecs() {{
  return {{
{entries}  }};
}}

}}  // namespace hipress::cuda
"""


def _encode(function: ir.Function, name: str) -> tuple[CudaFunction, str, bool]:
    """The function, the host's lines that launch its kernels, and whether they sort."""
    plan_, vectors = fuse(function)
    emitted = CudaFunction(function, vectors, decoding=False)
    for state in function.states:
        emitted.member(f"before_{emitted.names(state)}", "const float*", " = nullptr")
        emitted.member(f"after_{emitted.names(state)}", "float*", " = nullptr")
    emitted.gradient_checked = states_guard_gradient(plan_.steps, vectors)
    items = next(s.items for s in function.body if isinstance(s, ir.WriteMessage))
    steps = CudaSteps(emitted, name, function.body)
    steps.emit(plan_.steps, items)
    if not emitted.gradient_checked:
        steps.kernel("cuda::checkFinite(block, f->gradient, f->n, f->scale, &f->bad);", "n")
    steps.end(
        "*f->messageBytes = f->bad == 0 && f->stop == 0 ? static_cast<uint32_t>(f->bytes) : 0u;\n"
        "*f->error = f->bad == 0 ? f->stop : 0u;"
    )
    return emitted, "\n".join(steps.host), steps.sorts


def _decode(function: ir.Function, name: str, refusals: list[str]) -> tuple[CudaFunction, str, bool]:
    """`refusals` are encode's: both share one list of numbers."""
    plan_, vectors = fuse(function)
    emitted = CudaFunction(function, vectors, decoding=True)
    emitted.refusals = refusals
    steps = CudaSteps(emitted, name, function.body)
    long = emitted.refusal("the payload has more bytes than there is room for")
    steps.lines += [
        "f.bytes = f.payloadBytes != nullptr ? *f.payloadBytes : f.capacity;",
        f"if (f.bytes > f.capacity) f.stop = {long}u;",
        "if (f.bytes == 0) f.stop = cuda::kLost;",
    ]
    steps.settle()
    steps.emit(plan_.steps)
    steps.end("*f->error = f->stop == cuda::kLost ? 0u : f->stop;")
    steps.guard = "f->stop == cuda::kLost"
    steps.kernel("cuda::fillAll(block, f->output, f->n, static_cast<float>(NAN));", "n / 16")
    steps.flush()
    return emitted, "\n".join(steps.host), steps.sorts


def _params(program: ir.Program) -> str:
    members = "".join(f"  {c_type(p.type)} p_{p.name}{{}};\n" for p in program.params)
    values = "".join(
        f"  params.p_{p.name} = static_cast<{c_type(p.type)}>(values[{number}]);\n"
        for number, p in enumerate(program.params)
    )
    return (
        f"struct Params {{\n{members}}};\n\n"
        f"inline Params parameters([[maybe_unused]] const double* values) {{\n  Params params;\n{values}"
        "  return params;\n}\n"
    )


def _text(function: CudaFunction, own: tuple[str, ...]) -> str:
    """The frame, functions of elements, and kernels."""
    frame = "struct Frame {\n" + indented("\n".join([*_COMMON, *own, *function.members.values()]), 2) + "\n};\n"
    declarations = "".join(text.split("{\n", 1)[0].rstrip() + ";\n" for text in function.at_functions.values())
    functors = "".join(f"struct {name} {{\n{text}}};\n\n" for name, text in function.functors.items())
    return "\n".join([frame, declarations, *function.at_functions.values(), functors, *function.kernels])


def _memory(function: CudaFunction) -> str:
    """Lays the vectors out in scratch memory; ends a call that only asks how much of it there must be."""
    takes = [f"initial.{b.member} = arena.take<{b.type}>({b.count});" for b in function.buffers.values()]
    return "\n".join(
        [
            *function.bounds.lines,
            "cuda::Arena arena(call == nullptr ? nullptr : call->scratch);",
            "[[maybe_unused]] Frame* const frame = arena.take<Frame>(1);",
            "Frame initial;",
            *takes,
            "if (call == nullptr) return arena.bytes();",
            "initial.n = n;",
            "initial.params = params;",
            *function.initial,
        ]
    )


def _state_pointers(function: CudaFunction, states: tuple[str, ...]) -> str:
    lines = []
    for number, state in enumerate(states):
        name = function.names(state)
        lines.append(f"initial.before_{name} = kStates ? call->before[{number}] : nullptr;")
        lines.append(f"initial.after_{name} = kStates ? call->after[{number}] : nullptr;")
    return "\n".join(lines)

# SPDX-License-Identifier: Apache-2.0
"""A program for GPUs: kernels, which NVRTC compiles, and the host's functions, of core/ops/cuda/cuda_codec.h.

The C++ compiler compiles the functions, which start the kernels by their symbols. A library has both: the functions,
and the text of the kernels.
"""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.emit.bounds import emit_bound
from hipress.compll.emit.cuda.encode import COMMON, encoding, memory, text
from hipress.compll.emit.cuda.function import CudaFunction
from hipress.compll.emit.cuda.steps import CudaSteps
from hipress.compll.emit.cuda.store import STORE
from hipress.compll.emit.cuda.summed import summed_codec
from hipress.compll.emit.cuda.summing import summing_functions, summing_kernel, summing_list
from hipress.compll.emit.origin import Origin
from hipress.compll.emit.scope import c_type
from hipress.compll.emit.target import Target
from hipress.compll.emit.text import gpu_table, indented, params_struct
from hipress.compll.passes import plan
from hipress.compll.passes.fuse import fuse

_DECODING = (
    "const uint8_t* payload = nullptr;",
    "const uint32_t* payloadBytes = nullptr;",
    "size_t capacity = 0;",
    "float* output = nullptr;",
    "uint32_t* error = nullptr;",
)


class Cuda(Target):
    name, suffix = "cuda", ".cu"
    inline, method = "HIPRESS_DEVICE inline", "HIPRESS_DEVICE "
    least, order_key = "cuda::atMost", "cuda::orderKey"

    def __init__(self) -> None:
        super().__init__()
        self.sinks[plan.StoreTo] = STORE

    def codec(self, program: ir.Program, origin: Origin) -> str:
        """C++: the kernels, and the functions that start them. A library also needs kernel_text()."""
        kernels, functions = _codec(program, origin)
        return kernels + functions

    def kernels(self, program: ir.Program, origin: Origin) -> str:
        """The text for NVRTC. The headers of HiPress are all that it includes."""
        return _codec(program, origin)[0]

    def library(self, program: ir.Program, origin: Origin) -> str:
        """codec(), and the text of its kernels as a string: all that a library has for GPUs."""
        kernels, functions = _codec(program, origin)
        member = f"hipress::generated_cuda::codec_{program.name}::kernels"
        return f'{kernels}{functions}\nconst char* const {member} = R"kernels({kernels})kernels";\n'


#: GPUs.
CUDA = Cuda()


def _codec(program: ir.Program, origin: Origin) -> tuple[str, str]:
    """The kernels, and the host's functions."""
    assert program.encode is not None
    assert program.decode is not None
    encode = encoding(program.name, program.encode, CUDA, "encode", "encoding")
    refusals = encode.function.refusals
    decode, decode_host, decode_sorts, sum_kernels = _decode(program.name, program.decode, refusals)
    summed = summed_codec(program.name, program.encode, CUDA, refusals)
    sort = '#include "core/ops/cuda/sort.h"\n' if encode.sorts or decode_sorts or summed.sorts else ""
    reasons = ", ".join(f'"{reason}"' for reason in refusals)
    states = program.encode.states
    nothing = f"{program.name}_nothing"
    listed = [
        f"HIPRESS_KERNEL({nothing}, cuda::Nothing)",
        *encode.listed,
        *decode.kernel_list((False, True)),
        *(summing_list(decode) if sum_kernels else []),
        *summed.listed,
    ]
    sums = "&codec::sumScratchBytes, &codec::sum" if sum_kernels else "nullptr, nullptr"
    kernels = f"""// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from {origin.file}.
#include "core/ops/cuda/generated.h"
{sort}
namespace hipress::generated_cuda::codec_{program.name} {{

using namespace hipress;

{params_struct(program)}
{encode.kernels}
{summed.kernels}
namespace decoding {{

{text(decode, (*COMMON, *_DECODING))}
{sum_kernels or ""}
}}  // namespace decoding

{chr(10).join(listed)}

}}  // namespace hipress::generated_cuda::codec_{program.name}
"""
    functions = f"""
namespace hipress::generated_cuda::codec_{program.name} {{

extern const char* const kernels;

{_params(program)}
inline size_t bound([[maybe_unused]] size_t n, [[maybe_unused]] const Params& params) {{
{indented(chr(10).join(emit_bound(program.encode, encode.function.vectors)), 2)}
}}

{encode.definition}
{summed.functions}
/// Without `call`, only the bytes of scratch memory.
template <bool kAccumulate>
size_t decodeWith(const cuda::CudaDecode* call, size_t n, size_t capacity, const Params& params,
                  [[maybe_unused]] cuda::Stream stream) {{
  using namespace decoding;
{indented(memory(decode), 2)}
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
  return encodeWith<false>(nullptr, count, 0, parameters(values), nullptr);
}}

inline size_t decodeScratchBytes(const double* values, size_t count, size_t capacity) {{
  return decodeWith<false>(nullptr, count, capacity, parameters(values), nullptr);
}}

inline void encode(const cuda::CudaEncode& call, cuda::Stream stream) {{
  if (call.count == 0) {{
    cuda::launch(stream, "{nothing}", 1, cuda::Nothing{{call.messageBytes, nullptr, 0}});
    cuda::launch(stream, "{nothing}", 1, cuda::Nothing{{call.error, nullptr, 0}});
    return;
  }}
{indented(encode.start, 2)}
}}

inline void decode(const cuda::CudaDecode& call, cuda::Stream stream) {{
  if (call.count == 0) {{
    cuda::launch(stream, "{nothing}", 1, cuda::Nothing{{call.error, call.payloadBytes, call.capacity}});
  }} else if (call.accumulate != 0) {{
    decodeWith<true>(&call, call.count, call.capacity, parameters(call.params), stream);
  }} else {{
    decodeWith<false>(&call, call.count, call.capacity, parameters(call.params), stream);
  }}
}}

{summing_functions(decode) if sum_kernels else ""}
inline const char* refusal(uint32_t error) {{
  static const char* const reasons[] = {{"none", {reasons}}};
  constexpr size_t known = sizeof(reasons) / sizeof(reasons[0]);
  return error < known ? reasons[error] : "unknown";
}}

}}  // namespace hipress::generated_cuda::codec_{program.name}

extern "C" __attribute__((visibility("default"))) const hipress::cuda::CudaCodec* {gpu_table(program.name)}() {{
  namespace codec = hipress::generated_cuda::codec_{program.name};
  static const hipress::cuda::CudaCodec table{{"{program.name}",
                                              codec::kernels,
                                              {len(states)},
                                              {len(program.params)},
                                              &codec::maxEncodedBytes,
                                              &codec::encodeScratchBytes,
                                              &codec::decodeScratchBytes,
                                              &codec::encode,
                                              &codec::decode,
                                              &codec::refusal,
                                              {sums},
                                              {summed.table}}};
  return &table;
}}
"""
    return kernels, functions


def _decode(codec: str, function: ir.Function, refusals: list[str]) -> tuple[CudaFunction, str, bool, str | None]:
    """Also the kernel that adds up messages. `refusals` are encode's: both share one list of numbers."""
    plan_, vectors = fuse(function)
    emitted = CudaFunction(codec, function, vectors, CUDA, decoding=True, part="decode", space="decoding")
    emitted.refusals = refusals
    steps = CudaSteps(emitted, function.body)
    long = emitted.refusal("the payload has more bytes than there is room for")
    steps.lines += [
        "f.bytes = f.payloadBytes != nullptr ? *f.payloadBytes : f.capacity;",
        f"if (f.bytes > f.capacity) f.stop = {long}u;",
        "if (f.bytes == 0) f.stop = cuda::kLost;",
    ]
    steps.settle()
    steps.emit(plan_.steps)
    sums = summing_kernel(steps)
    fill = "cuda::fillAll(block, f->output, f->n, static_cast<float>(NAN));"
    is_filled = steps.also(f"if (f->stop == cuda::kLost) {fill}")
    steps.end("*f->error = f->stop == cuda::kLost ? 0u : f->stop;")
    if not is_filled:
        steps.guard = "f->stop == cuda::kLost"
        steps.kernel(fill, "n / 16")
        steps.flush()
    return emitted, "\n".join(steps.host), steps.sorts, sums


def _params(program: ir.Program) -> str:
    values = "".join(
        f"  params.p_{p.name} = static_cast<{c_type(p.type)}>(values[{number}]);\n"
        for number, p in enumerate(program.params)
    )
    return (
        f"inline Params parameters([[maybe_unused]] const double* values) {{\n  Params params;\n{values}"
        "  return params;\n}\n"
    )

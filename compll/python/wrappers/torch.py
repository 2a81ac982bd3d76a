# SPDX-License-Identifier: Apache-2.0
"""C++ for PyTorch's operators of one codec: torch.ops.hipress.<codec>_encode, _decode and _decode_accumulate.

The kernels themselves are in frameworks/torch/operators/codec_kernels.h; this module writes the parts that
torch needs at compile time: one function with the codec's states as arguments, and the schemas.
"""

from __future__ import annotations

from string import Template

from hipress.compll.wrappers.codec_interface import CodecInterface

_WRAPPER = Template("""\
// SPDX-License-Identifier: Apache-2.0
// Written by `hipress compll build`: the kernels of codec ${name} for PyTorch, on the stable ABI of torch >= 2.10.
${options}#include "frameworks/torch/operators/codec_kernels.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace {

namespace operators = hipress::torch_operators;
using torch::stable::Tensor;

/// The message; the states are updated in place.
Tensor encode(Tensor gradient, ${parameters}std::string options, int64_t seed, int64_t step, int64_t tensor,
              double scale) {
  const std::vector<operators::StateArgument> states = {${states}};
  return operators::encode("${name}", gradient, states, options, {seed, step, tensor, scale});
}

Tensor decode(Tensor payload, int64_t count, std::string options) {
  return operators::decode("${name}", payload, count, options);
}

void decodeAccumulate(Tensor payload, Tensor output, std::string options) {
  operators::decodeAccumulate("${name}", payload, output, options);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(hipress, CPU, library) {
  library.impl("${name}_encode", TORCH_BOX(&encode));
  library.impl("${name}_decode", TORCH_BOX(&decode));
  library.impl("${name}_decode_accumulate", TORCH_BOX(&decodeAccumulate));
}
""")

_REGISTRATION = Template("""\
// SPDX-License-Identifier: Apache-2.0
// Written by `hipress compll build`: names and schemas of codec ${name}'s operators for PyTorch. Shapes of results:
// hipress.torch.codec_operators.register_fakes("${name}").
#include <torch/csrc/stable/library.h>

STABLE_TORCH_LIBRARY_FRAGMENT(hipress, library) {
${definitions}}
""")


def schemas(codec: CodecInterface) -> tuple[str, ...]:
    """The operators' schemas; frameworks/torch/operators/codecs.cc makes the same ones at run time."""
    states = "".join(f", Tensor(s{i}!)? {argument}=None" for i, argument in enumerate(codec.arguments))
    numbers = "SymInt seed=0, SymInt step=0, SymInt tensor=0, float scale=1.0"
    return (
        f'{codec.name}_encode(Tensor gradient{states}, *, str options="", {numbers}) -> Tensor',
        f'{codec.name}_decode(Tensor payload, SymInt count, *, str options="") -> Tensor',
        f'{codec.name}_decode_accumulate(Tensor payload, Tensor(a!) output, *, str options="") -> ()',
    )


def wrapper(codec: CodecInterface) -> str:
    """The kernels, bound to the CPU."""
    return _WRAPPER.substitute(
        name=codec.name,
        options=codec.option_lines,
        parameters="".join(f"std::optional<Tensor> {argument}_values, " for argument in codec.arguments),
        states=", ".join(f'{{"{s}", {a}_values}}' for s, a in zip(codec.states, codec.arguments, strict=True)),
    )


def registration(codec: CodecInterface) -> str:
    """The operators' names and schemas."""
    definitions = (f'  library.def(R"({schema})");\n' for schema in schemas(codec))
    return _REGISTRATION.substitute(name=codec.name, definitions="".join(definitions))

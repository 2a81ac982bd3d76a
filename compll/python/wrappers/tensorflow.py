# SPDX-License-Identifier: Apache-2.0
"""C++ for TensorFlow's operators of one codec: Hipress<Codec>Encode, ...Decode and ...DecodeAccumulate.

The kernels themselves are in frameworks/tensorflow/operators/codec_kernels.h. They use TensorFlow's C++ interface,
which differs from version to version: compile them against the headers of the TensorFlow that loads them.
"""

from __future__ import annotations

from string import Template

from hipress.compll.wrappers.codec_interface import CodecInterface

_WRAPPER = Template("""\
// SPDX-License-Identifier: Apache-2.0
// Written by `hipress compll build`: the kernels of codec ${name} for TensorFlow.
${options}#include "frameworks/tensorflow/operators/codec_kernels.h"

namespace {

namespace tf = tensorflow;
namespace operators = hipress::tensorflow_operators;

/// gradient, states, step -> message, states
class Encode final : public operators::EncodeKernel {
 public:
  explicit Encode(tf::OpKernelConstruction* construction)
      : operators::EncodeKernel(construction, "${name}", {${names}}) {}
};

/// payload, count -> values
class Decode final : public operators::DecodeKernel {
 public:
  explicit Decode(tf::OpKernelConstruction* construction) : operators::DecodeKernel(construction, "${name}") {}
};

/// payload, values -> values + decoded
class DecodeAccumulate final : public operators::DecodeAccumulateKernel {
 public:
  explicit DecodeAccumulate(tf::OpKernelConstruction* construction)
      : operators::DecodeAccumulateKernel(construction, "${name}") {}
};

REGISTER_KERNEL_BUILDER(Name("Hipress${title}Encode").Device(tf::DEVICE_CPU), Encode);
REGISTER_KERNEL_BUILDER(Name("Hipress${title}Decode").Device(tf::DEVICE_CPU), Decode);
REGISTER_KERNEL_BUILDER(Name("Hipress${title}DecodeAccumulate").Device(tf::DEVICE_CPU), DecodeAccumulate);

}  // namespace
""")

_REGISTRATION = Template("""\
// SPDX-License-Identifier: Apache-2.0
// Written by `hipress compll build`: names and arguments of codec ${name}'s operators for TensorFlow.
#include <tensorflow/core/framework/op.h>

#include "frameworks/tensorflow/operators/codec_kernels.h"

REGISTER_OP("Hipress${title}Encode")
    .Input("gradient: float")
${inputs}    .Input("step: int64")
    .Output("message: uint8")
${outputs}    .Attr("options: string = ''")
    .Attr("seed: int = 0")
    .Attr("tensor: int = 0")
    .Attr("scale: float = 1.0")
    .SetShapeFn(hipress::tensorflow_operators::encodeShapes);

REGISTER_OP("Hipress${title}Decode")
    .Input("payload: uint8")
    .Input("count: int64")
    .Output("values: float")
    .Attr("options: string = ''")
    .SetShapeFn(hipress::tensorflow_operators::decodeShape);

REGISTER_OP("Hipress${title}DecodeAccumulate")
    .Input("payload: uint8")
    .Input("values: float")
    .Output("sums: float")
    .Attr("options: string = ''")
    .SetShapeFn(hipress::tensorflow_operators::accumulateShape);
""")


def wrapper(codec: CodecInterface) -> str:
    """The kernels, for the CPU."""
    names = ", ".join(f'"{state}"' for state in codec.states)
    return _WRAPPER.substitute(name=codec.name, title=codec.title, options=codec.option_lines, names=names)


def registration(codec: CodecInterface) -> str:
    """The operators' names, arguments and shape functions."""
    arguments = [argument.lower() for argument in codec.arguments]  # TensorFlow's names of attributes have no capitals
    return _REGISTRATION.substitute(
        name=codec.name,
        title=codec.title,
        inputs="".join(f'    .Input("{argument}: float")\n' for argument in arguments),
        outputs="".join(f'    .Output("{argument}_out: float")\n' for argument in arguments),
    )

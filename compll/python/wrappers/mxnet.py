# SPDX-License-Identifier: Apache-2.0
"""C++ for MXNet's operators of one codec: hipress_<codec>_encode, _decode and _decode_accumulate.

The kernels themselves are in frameworks/mxnet/operators/codec_kernels.h; this module writes the functions that MXNet's
extension interface (lib_api.h, version 11, MXNet 1.8 and 1.9) takes: plain functions without an argument for the codec.
A shared library of both files and MXNet's lib_api.cc is for mx.library.load().
"""

from __future__ import annotations

from string import Template

from hipress.compll.wrappers.codec_interface import CodecInterface

_WRAPPER = Template("""\
// SPDX-License-Identifier: Apache-2.0
// Written by `hipress compll build`: the kernels of codec ${name} for MXNet.
${options}#include "frameworks/mxnet/operators/codec_kernels.h"

namespace hipress_${name} {

namespace operators = hipress::mxnet_operators;
using mxnet::ext::MXReturnValue;
using mxnet::ext::OpResource;
using operators::Arrays;
using operators::Attributes;

const operators::OperatorNames& names() {
  static const operators::OperatorNames all{"${name}", {${names}}};
  return all;
}

/// gradient, states, step -> message, its length; the states are updated in place.
MXReturnValue encode(const Attributes& attributes, Arrays* inputs, Arrays* outputs, const OpResource&) {
  return operators::encode(names(), attributes, inputs, outputs);
}

/// message, its length -> as many values as the attribute `count` says
MXReturnValue decode(const Attributes& attributes, Arrays* inputs, Arrays* outputs, const OpResource&) {
  return operators::decode(names(), attributes, inputs, outputs);
}

/// message, its length, values -> values + decoded
MXReturnValue decodeAccumulate(const Attributes& attributes, Arrays* inputs, Arrays* outputs, const OpResource&) {
  return operators::decodeAccumulate(names(), attributes, inputs, outputs);
}

}  // namespace hipress_${name}
""")

_REGISTRATION = Template("""\
// SPDX-License-Identifier: Apache-2.0
// Written by `hipress compll build`: names, arguments and shapes of codec ${name}'s operators for MXNet. Attributes are
// options, seed, tensor and scale, and for decoding options and count.
#include "frameworks/mxnet/operators/codec_kernels.h"

namespace hipress_${name} {

namespace operators = hipress::mxnet_operators;
using mxnet::ext::MXReturnValue;
using mxnet::ext::OpResource;
using operators::Arrays;
using operators::Attributes;
using operators::Shapes;
using operators::Types;

// In the other file.
const operators::OperatorNames& names();
MXReturnValue encode(const Attributes& attributes, Arrays* inputs, Arrays* outputs, const OpResource&);
MXReturnValue decode(const Attributes& attributes, Arrays* inputs, Arrays* outputs, const OpResource&);
MXReturnValue decodeAccumulate(const Attributes& attributes, Arrays* inputs, Arrays* outputs, const OpResource&);

namespace {

template <int inputs, int outputs>
MXReturnValue counts(const Attributes&, int* inputCount, int* outputCount) {
  return operators::counts(inputs, outputs, inputCount, outputCount);
}

MXReturnValue encodeTypes(const Attributes&, Types* inputs, Types* outputs) {
  return operators::encodeTypes(names(), inputs, outputs);
}

MXReturnValue encodeShapes(const Attributes& attributes, Shapes* inputs, Shapes* outputs) {
  return operators::encodeShapes(names(), attributes, inputs, outputs);
}

MXReturnValue encodeMutates(const Attributes&, Types* inputs) {
  return operators::encodeMutates(names(), inputs);
}

MXReturnValue decodeTypes(const Attributes&, Types* inputs, Types* outputs) {
  return operators::decodeTypes(names(), inputs, outputs);
}

MXReturnValue decodeShapes(const Attributes& attributes, Shapes*, Shapes* outputs) {
  return operators::decodeShapes(names(), attributes, outputs);
}

MXReturnValue accumulateTypes(const Attributes&, Types* inputs, Types* outputs) {
  return operators::accumulateTypes(names(), inputs, outputs);
}

MXReturnValue accumulateShapes(const Attributes&, Shapes* inputs, Shapes* outputs) {
  return operators::accumulateShapes(inputs, outputs);
}

}  // namespace

REGISTER_OP(hipress_${name}_encode)
    .setForward(encode, "cpu")
    .setParseAttrs(counts<${count} + 2, 2>)
    .setInferType(encodeTypes)
    .setInferShape(encodeShapes)
    .setMutateInputs(encodeMutates);

REGISTER_OP(hipress_${name}_decode)
    .setForward(decode, "cpu")
    .setParseAttrs(counts<2, 1>)
    .setInferType(decodeTypes)
    .setInferShape(decodeShapes);

REGISTER_OP(hipress_${name}_decode_accumulate)
    .setForward(decodeAccumulate, "cpu")
    .setParseAttrs(counts<3, 1>)
    .setInferType(accumulateTypes)
    .setInferShape(accumulateShapes);

}  // namespace hipress_${name}

/// MXNet calls this when it has loaded the library, in which several codecs may have such a file: hence weak.
__attribute__((weak)) mxnet::ext::MXReturnValue initialize(int version) {
  if (version >= 10700) return mxnet::ext::MX_SUCCESS;
  MX_ERROR_MSG << "codec ${name}: needs MXNet 1.7 or newer";
  return mxnet::ext::MX_FAIL;
}
""")


def wrapper(codec: CodecInterface) -> str:
    """The kernels, for the CPU."""
    names = ", ".join(f'"{state}"' for state in codec.states)
    return _WRAPPER.substitute(name=codec.name, options=codec.option_lines, names=names)


def registration(codec: CodecInterface) -> str:
    """The operators' names, arguments and shape functions."""
    return _REGISTRATION.substitute(name=codec.name, count=len(codec.states))

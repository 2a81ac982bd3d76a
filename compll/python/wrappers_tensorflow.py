# SPDX-License-Identifier: Apache-2.0
"""C++ for TensorFlow's operators of one codec: Hipress<Codec>Encode, ...Decode and ...DecodeAccumulate.

They are kernels of TensorFlow's C++ interface, which is another one in every version: compile them against the headers
of the TensorFlow that loads them.
"""

from __future__ import annotations

from string import Template

from hipress.compll.codec_interface import CodecInterface

_WRAPPER = Template("""\
// SPDX-License-Identifier: Apache-2.0
// Written by `hipress compll build`: the kernels of codec ${name} for TensorFlow.
${options}//
// TensorFlow's operators do not change their inputs: states go in as they are and come out as they become, in the
// same memory if nobody else needs the old ones. A state without elements is not kept.
#include <tensorflow/core/framework/op_kernel.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/codec/operator_codec.h"
#include "core/error.h"

namespace {

namespace tf = tensorflow;

/// Errors of the core become the operator's, with their text.
void guarded(tf::OpKernelContext* context, const std::function<void()>& body) {
  try {
    body();
  } catch (const hipress::Error& error) {
    const bool corrupt = error.kind() == hipress::ErrorKind::kCorruptPayload;
    context->SetStatus(corrupt ? absl::DataLossError(error.what()) : absl::InvalidArgumentError(error.what()));
  }
}

std::span<const float> floats(const tf::Tensor& tensor) {
  return {tensor.flat<float>().data(), static_cast<size_t>(tensor.NumElements())};
}

std::span<float> floats(tf::Tensor& tensor) {
  return {tensor.flat<float>().data(), static_cast<size_t>(tensor.NumElements())};
}

hipress::ConstBytes message(const tf::Tensor& tensor) {
  return std::as_bytes(std::span(tensor.flat<uint8_t>().data(), static_cast<size_t>(tensor.NumElements())));
}

class CodecKernel : public tf::OpKernel {
 public:
  explicit CodecKernel(tf::OpKernelConstruction* construction) : tf::OpKernel(construction) {
    std::string options;
    OP_REQUIRES_OK(construction, construction->GetAttr("options", &options));
    try {
      codec_ = hipress::operatorCodec("${name}", options);
    } catch (const hipress::Error& error) {
      construction->SetStatus(absl::InvalidArgumentError(error.what()));
    }
  }

 protected:
  hipress::CodecPointer codec_;
};

/// gradient, states, step -> message, states
class Encode final : public CodecKernel {
 public:
  explicit Encode(tf::OpKernelConstruction* construction) : CodecKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("seed", &seed_));
    OP_REQUIRES_OK(construction, construction->GetAttr("tensor", &tensor_));
    OP_REQUIRES_OK(construction, construction->GetAttr("scale", &scale_));
  }

  void Compute(tf::OpKernelContext* context) override {
    const std::vector<std::string> names = {${names}};
    const int count = static_cast<int>(names.size());
    const tf::Tensor& step = context->input(count + 1);
    OP_REQUIRES(context, tf::TensorShapeUtils::IsScalar(step.shape()),
                absl::InvalidArgumentError("step must be a scalar"));
    std::vector<hipress::OperatorState> states;
    for (int i = 0; i < count; ++i) {
      const tf::Tensor& before = context->input(i + 1);
      tf::Tensor* after = nullptr;
      OP_REQUIRES_OK(context,
                     context->forward_input_or_allocate_output({i + 1}, i + 1, before.shape(), &after));
      if (!after->SharesBufferWith(before)) std::ranges::copy(floats(before), floats(*after).begin());
      states.push_back({names[static_cast<size_t>(i)], floats(*after)});
    }
    guarded(context, [&] {
      const hipress::EncodeContext number = {.seed = static_cast<uint64_t>(seed_),
                                             .step = static_cast<uint64_t>(step.scalar<int64_t>()()),
                                             .tensor = static_cast<uint32_t>(tensor_),
                                             .scale = scale_};
      const auto encoded = hipress::operatorEncode(*codec_, floats(context->input(0)), states, number);
      tf::Tensor* output = nullptr;
      OP_REQUIRES_OK(context,
                     context->allocate_output(0, {static_cast<int64_t>(encoded.size)}, &output));
      if (encoded.size > 0) std::memcpy(output->data(), encoded.bytes.get(), encoded.size);
    });
  }

 private:
  int64_t seed_ = 0;
  int64_t tensor_ = 0;
  float scale_ = 1.0f;
};

/// payload, count -> values
class Decode final : public CodecKernel {
 public:
  using CodecKernel::CodecKernel;

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& count = context->input(1);
    OP_REQUIRES(context, tf::TensorShapeUtils::IsScalar(count.shape()) && count.scalar<int64_t>()() >= 0,
                absl::InvalidArgumentError("count must be a scalar, and not negative"));
    tf::Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {count.scalar<int64_t>()()}, &output));
    guarded(context, [&] {
      codec_->decode(message(context->input(0)), floats(*output), hipress::DecodeMode::kAssign);
    });
  }
};

/// payload, values -> values + decoded
class DecodeAccumulate final : public CodecKernel {
 public:
  using CodecKernel::CodecKernel;

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& before = context->input(1);
    tf::Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output({1}, 0, before.shape(), &output));
    if (!output->SharesBufferWith(before)) std::ranges::copy(floats(before), floats(*output).begin());
    guarded(context, [&] {
      codec_->decode(message(context->input(0)), floats(*output), hipress::DecodeMode::kAccumulate);
    });
  }
};

REGISTER_KERNEL_BUILDER(Name("Hipress${title}Encode").Device(tf::DEVICE_CPU), Encode);
REGISTER_KERNEL_BUILDER(Name("Hipress${title}Decode").Device(tf::DEVICE_CPU), Decode);
REGISTER_KERNEL_BUILDER(Name("Hipress${title}DecodeAccumulate").Device(tf::DEVICE_CPU), DecodeAccumulate);

}  // namespace
""")

_REGISTRATION = Template("""\
// SPDX-License-Identifier: Apache-2.0
// Written by `hipress compll build`: names, arguments and shapes of codec ${name}'s operators for TensorFlow.
#include <tensorflow/core/framework/common_shape_fns.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/shape_inference.h>

namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

/// A message is as long as the values make it; states keep their shapes.
absl::Status encodeShapes(InferenceContext* context) {
  ShapeHandle step;
  TF_RETURN_IF_ERROR(context->WithRank(context->input(context->num_inputs() - 1), 0, &step));
  context->set_output(0, context->Vector(InferenceContext::kUnknownDim));
  for (int i = 1; i < context->num_outputs(); ++i) context->set_output(i, context->input(i));
  return absl::OkStatus();
}

absl::Status decodeShape(InferenceContext* context) {
  DimensionHandle count;
  TF_RETURN_IF_ERROR(context->MakeDimForScalarInput(1, &count));
  context->set_output(0, context->Vector(count));
  return absl::OkStatus();
}

absl::Status accumulateShape(InferenceContext* context) {
  context->set_output(0, context->input(1));
  return absl::OkStatus();
}

}  // namespace

REGISTER_OP("Hipress${title}Encode")
    .Input("gradient: float")
${inputs}    .Input("step: int64")
    .Output("message: uint8")
${outputs}    .Attr("options: string = ''")
    .Attr("seed: int = 0")
    .Attr("tensor: int = 0")
    .Attr("scale: float = 1.0")
    .SetShapeFn(encodeShapes);

REGISTER_OP("Hipress${title}Decode")
    .Input("payload: uint8")
    .Input("count: int64")
    .Output("values: float")
    .Attr("options: string = ''")
    .SetShapeFn(decodeShape);

REGISTER_OP("Hipress${title}DecodeAccumulate")
    .Input("payload: uint8")
    .Input("values: float")
    .Output("sums: float")
    .Attr("options: string = ''")
    .SetShapeFn(accumulateShape);
""")


def wrapper(codec: CodecInterface) -> str:
    """The kernels, for the CPU."""
    names = ", ".join(f'"{state}"' for state in codec.states)
    return _WRAPPER.substitute(name=codec.name, title=codec.title, options=codec.option_lines, names=names)


def registration(codec: CodecInterface) -> str:
    """The operators' names, arguments and shape functions."""
    arguments = [argument.lower() for argument in codec.arguments]  # TensorFlow has no capitals in them
    return _REGISTRATION.substitute(
        name=codec.name,
        title=codec.title,
        inputs="".join(f'    .Input("{argument}: float")\n' for argument in arguments),
        outputs="".join(f'    .Output("{argument}_out: float")\n' for argument in arguments),
    )

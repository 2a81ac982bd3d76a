// SPDX-License-Identifier: Apache-2.0
//
// The kernels of any codec's operators in TensorFlow. codecs.cc registers operators that take the codec's
// name. The files of `hipress compll build -f tensorflow` register the operators of one codec.
//
// TensorFlow's operators do not change their inputs. So the new states are outputs, in the memory of the old
// ones if no other operator needs these. A state without elements is not kept.
#pragma once

#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/shape_inference.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/codec/operator_codec.h"
#include "frameworks/tensorflow/operators/status.h"

namespace hipress::tensorflow_operators {

namespace tf = ::tensorflow;

inline std::span<const float> floats(const tf::Tensor& tensor) {
  return {tensor.flat<float>().data(), static_cast<size_t>(tensor.NumElements())};
}

inline std::span<float> floats(tf::Tensor& tensor) {
  return {tensor.flat<float>().data(), static_cast<size_t>(tensor.NumElements())};
}

inline ConstBytes message(const tf::Tensor& tensor) {
  return std::as_bytes(std::span(tensor.flat<uint8_t>().data(), static_cast<size_t>(tensor.NumElements())));
}

class CodecKernel : public tf::OpKernel {
 public:
  CodecKernel(tf::OpKernelConstruction* construction, const std::string& codec) : tf::OpKernel(construction) {
    std::string options;
    OP_REQUIRES_OK(construction, construction->GetAttr("options", &options));
    guarded(construction, [&] { codec_ = operatorCodec(codec, options); });
  }

 protected:
  CodecPointer codec_;
};

/// gradient, states, step -> message, states
class EncodeKernel : public CodecKernel {
 public:
  EncodeKernel(tf::OpKernelConstruction* construction, const std::string& codec,
               std::vector<std::string> states)
      : CodecKernel(construction, codec), states_(std::move(states)) {
    OP_REQUIRES_OK(construction, construction->GetAttr("seed", &seed_));
    OP_REQUIRES_OK(construction, construction->GetAttr("tensor", &tensor_));
    OP_REQUIRES_OK(construction, construction->GetAttr("scale", &scale_));
    OP_REQUIRES(construction, construction->num_inputs() == static_cast<int>(states_.size()) + 2,
                absl::InvalidArgumentError("every state needs a name"));
  }

  void Compute(tf::OpKernelContext* context) override {
    const int count = static_cast<int>(states_.size());
    const tf::Tensor& step = context->input(count + 1);
    OP_REQUIRES(context, tf::TensorShapeUtils::IsScalar(step.shape()),
                absl::InvalidArgumentError("step must be a scalar"));
    std::vector<OperatorState> states;
    for (int i = 0; i < count; ++i) {
      const tf::Tensor& before = context->input(i + 1);
      tf::Tensor* after = nullptr;
      OP_REQUIRES_OK(context,
                     context->forward_input_or_allocate_output({i + 1}, i + 1, before.shape(), &after));
      if (!after->SharesBufferWith(before)) std::ranges::copy(floats(before), floats(*after).begin());
      if (after->NumElements() > 0) states.push_back({states_[static_cast<size_t>(i)], floats(*after)});
    }
    guarded(context, [&] {
      const EncodeContext number = {.seed = static_cast<uint64_t>(seed_),
                                    .step = static_cast<uint64_t>(step.scalar<int64_t>()()),
                                    .tensor = static_cast<uint32_t>(tensor_),
                                    .scale = scale_};
      const OperatorMessage encoded = operatorEncode(*codec_, floats(context->input(0)), states, number);
      tf::Tensor* output = nullptr;
      OP_REQUIRES_OK(context, context->allocate_output(0, {static_cast<int64_t>(encoded.size)}, &output));
      if (encoded.size > 0) std::memcpy(output->data(), encoded.bytes.get(), encoded.size);
    });
  }

 protected:
  const std::vector<std::string> states_;
  int64_t seed_ = 0;
  int64_t tensor_ = 0;
  float scale_ = 1.0f;
};

/// payload, count -> values
class DecodeKernel : public CodecKernel {
 public:
  using CodecKernel::CodecKernel;

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& count = context->input(1);
    OP_REQUIRES(context, tf::TensorShapeUtils::IsScalar(count.shape()) && count.scalar<int64_t>()() >= 0,
                absl::InvalidArgumentError("count must be a scalar, and not negative"));
    tf::Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {count.scalar<int64_t>()()}, &output));
    guarded(context,
            [&] { codec_->decode(message(context->input(0)), floats(*output), DecodeMode::kAssign); });
  }
};

/// payload, values -> values + decoded
class DecodeAccumulateKernel : public CodecKernel {
 public:
  using CodecKernel::CodecKernel;

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& before = context->input(1);
    tf::Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output({1}, 0, before.shape(), &output));
    if (!output->SharesBufferWith(before)) std::ranges::copy(floats(before), floats(*output).begin());
    guarded(context,
            [&] { codec_->decode(message(context->input(0)), floats(*output), DecodeMode::kAccumulate); });
  }
};

/// The length of a message depends on the values; states keep their shapes.
inline absl::Status encodeShapes(tf::shape_inference::InferenceContext* context) {
  tf::shape_inference::ShapeHandle step;
  TF_RETURN_IF_ERROR(context->WithRank(context->input(context->num_inputs() - 1), 0, &step));
  context->set_output(0, context->Vector(tf::shape_inference::InferenceContext::kUnknownDim));
  for (int i = 1; i < context->num_outputs(); ++i) context->set_output(i, context->input(i));
  return absl::OkStatus();
}

inline absl::Status decodeShape(tf::shape_inference::InferenceContext* context) {
  tf::shape_inference::DimensionHandle count;
  TF_RETURN_IF_ERROR(context->MakeDimForScalarInput(1, &count));
  context->set_output(0, context->Vector(count));
  return absl::OkStatus();
}

inline absl::Status accumulateShape(tf::shape_inference::InferenceContext* context) {
  context->set_output(0, context->input(1));
  return absl::OkStatus();
}

}  // namespace hipress::tensorflow_operators

// SPDX-License-Identifier: Apache-2.0
//
// The kernels of the codec operators for tensors on GPUs. Each puts its work on the operator's stream and
// returns. core/device/operators/device_operators.h describes their messages.
//
// `Place` is the GPU and the stream of a call: GpuPlace, or another one in tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device/operators/process_operators.h"
#include "frameworks/tensorflow/operators/codec_kernels.h"

namespace hipress::tensorflow_operators {

inline Bytes bytesOf(tf::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data()), static_cast<size_t>(tensor.TotalBytes())};
}

inline ConstBytes bytesOf(const tf::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data()), static_cast<size_t>(tensor.TotalBytes())};
}

/// The output in the input's memory, or in new memory with the input's values.
template <typename Place>
absl::Status inPlace(tf::OpKernelContext* context, const Place& place, int input, int output,
                     tf::Tensor** result) {
  const tf::Tensor& before = context->input(input);
  TF_RETURN_IF_ERROR(context->forward_input_or_allocate_output({input}, output, before.shape(), result));
  if (!(*result)->SharesBufferWith(before))
    place.operators().copy(place.stream(), bytesOf(**result).data(), bytesOf(before));
  return absl::OkStatus();
}

/// gradient, states, step -> message, states; the step is in host memory.
template <typename Place>
class GpuEncodeKernel : public EncodeKernel {
 public:
  using EncodeKernel::EncodeKernel;

  void Compute(tf::OpKernelContext* context) override {
    const int count = static_cast<int>(states_.size());
    const tf::Tensor& step = context->input(count + 1);
    OP_REQUIRES(context, tf::TensorShapeUtils::IsScalar(step.shape()),
                absl::InvalidArgumentError("step must be a scalar"));
    tf::Tensor
        workspace;  // ends after the place, which waits for the stream where memory is not the stream's
    guarded(context, [&] {
      const Place place(context);
      place.operators().raise();
      std::vector<OperatorState> states;
      for (int i = 0; i < count; ++i) {
        tf::Tensor* after = nullptr;
        OP_REQUIRES_OK(context, inPlace(context, place, i + 1, i + 1, &after));
        if (after->NumElements() > 0) states.push_back({states_[static_cast<size_t>(i)], floats(*after)});
      }
      DeviceOperatorEncode call;
      call.input = floats(context->input(0));
      call.states = states;
      call.context = {.seed = static_cast<uint64_t>(seed_),
                      .step = static_cast<uint64_t>(step.scalar<int64_t>()()),
                      .tensor = static_cast<uint32_t>(tensor_),
                      .scale = scale_};
      const size_t elements = place.operators().workspaceFloats(*codec_, call.input.size(), states);
      const size_t bytes = place.operators().messageBytes(*codec_, call.input.size());
      OP_REQUIRES_OK(context,
                     context->allocate_temp(tf::DT_FLOAT, {static_cast<int64_t>(elements)}, &workspace));
      tf::Tensor* output = nullptr;
      OP_REQUIRES_OK(context, context->allocate_output(0, {static_cast<int64_t>(bytes)}, &output));
      call.workspace = floats(workspace);
      call.message = bytesOf(*output);
      place.operators().encode(place.stream(), codec_, call);
    });
  }
};

/// message, count -> values; the count is in host memory.
template <typename Place>
class GpuDecodeKernel : public CodecKernel {
 public:
  using CodecKernel::CodecKernel;

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& count = context->input(1);
    OP_REQUIRES(context, tf::TensorShapeUtils::IsScalar(count.shape()) && count.scalar<int64_t>()() >= 0,
                absl::InvalidArgumentError("count must be a scalar, and not negative"));
    guarded(context, [&] {
      const Place place(context);
      place.operators().raise();
      tf::Tensor* output = nullptr;
      OP_REQUIRES_OK(context, context->allocate_output(0, {count.scalar<int64_t>()()}, &output));
      place.operators().decode(place.stream(), codec_, bytesOf(context->input(0)), floats(*output),
                               DecodeMode::kAssign);
    });
  }
};

/// message, values -> values + decoded
template <typename Place>
class GpuDecodeAccumulateKernel : public CodecKernel {
 public:
  using CodecKernel::CodecKernel;

  void Compute(tf::OpKernelContext* context) override {
    guarded(context, [&] {
      const Place place(context);
      place.operators().raise();
      tf::Tensor* output = nullptr;
      OP_REQUIRES_OK(context, inPlace(context, place, 1, 0, &output));
      place.operators().decode(place.stream(), codec_, bytesOf(context->input(0)), floats(*output),
                               DecodeMode::kAccumulate);
    });
  }
};

}  // namespace hipress::tensorflow_operators

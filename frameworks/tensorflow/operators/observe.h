// SPDX-License-Identifier: Apache-2.0
//
// The kernels of HipressObserve and HipressUpdated.
#pragma once

#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/resource_mgr.h>
#include <tensorflow/core/framework/resource_var.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "frameworks/tensorflow/operators/status.h"
#include "frameworks/tensorflow/operators/tensor_lists.h"
#include "frameworks/tensorflow/operators/tensor_view.h"

namespace hipress::tensorflow_operators {

/// Values per variable: enough that an update changes at least one of them, and so few that to read them
/// costs no time.
inline constexpr size_t kSamples = 16;

/// FNV-1a over the bytes of elements from all parts of the tensor.
inline uint64_t sampleOf(const tf::Tensor& tensor) {
  const auto count = static_cast<size_t>(tensor.NumElements());
  const auto size = static_cast<size_t>(tf::DataTypeSize(tensor.dtype()));
  const auto* bytes = static_cast<const unsigned char*>(tensor.data());
  const size_t samples = std::min(count, kSamples);
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t sample = 0; sample < samples; ++sample) {
    const unsigned char* element = bytes + (sample * count / samples) * size;
    for (size_t i = 0; i < size; ++i) hash = (hash ^ element[i]) * 0x100000001b3u;
  }
  return hash;
}

class Observe final : public tf::OpKernel {
 public:
  explicit Observe(tf::OpKernelConstruction* construction) : tf::OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("list_number", &list_));
    OP_REQUIRES_OK(construction, construction->GetAttr("indices", &indices_));
    OP_REQUIRES(construction, static_cast<int>(indices_.size()) == construction->num_inputs(),
                absl::InvalidArgumentError("every variable needs its index in the list"));
  }

  void Compute(tf::OpKernelContext* context) override {
    guarded(context, [&] {
      const auto list = listInGraph(list_);
      for (int i = 0; i < context->num_inputs(); ++i) {
        tf::core::RefCountPtr<tf::Var> variable;
        OP_REQUIRES_OK(context, tf::LookupResource(context, tf::HandleFromInput(context, i), &variable));
        const tf::tf_shared_lock lock(*variable->mu());
        list->observe(static_cast<size_t>(indices_[static_cast<size_t>(i)]), sampleOf(*variable->tensor()));
      }
    });
  }

 private:
  int64_t list_ = 0;
  std::vector<int64_t> indices_;
};

/// TensorFlow runs this operator when the optimizer has written these variables.
class Updated final : public tf::OpKernel {
 public:
  explicit Updated(tf::OpKernelConstruction* construction) : tf::OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("list_number", &list_));
    OP_REQUIRES_OK(construction, construction->GetAttr("indices", &indices_));
  }

  void Compute(tf::OpKernelContext* context) override {
    guarded(context, [&] {
      const auto list = listInGraph(list_);
      for (const int64_t index : indices_) list->updated(static_cast<size_t>(index));
    });
  }

 private:
  int64_t list_ = 0;
  std::vector<int64_t> indices_;
};

}  // namespace hipress::tensorflow_operators

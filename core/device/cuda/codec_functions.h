// SPDX-License-Identifier: Apache-2.0
//
// A codec's table of functions, with the values of its options and its loaded kernels.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/device/cuda/kernels.h"
#include "core/device/device.h"
#include "core/ops/cuda/cuda_codec.h"

namespace hipress::cuda {

class CodecFunctions final : public DeviceCodec {
 public:
  CodecFunctions(const CudaCodec& table, std::vector<double> params,
                 std::shared_ptr<const KernelModule> kernels)
      : table_(table), params_(std::move(params)), kernels_(std::move(kernels)) {}

  const CudaCodec& table() const { return table_; }
  const KernelModule& kernels() const { return *kernels_; }
  const double* params() const { return params_.data(); }

  bool sumsAtOnce() const override { return table_.sum != nullptr; }
  std::string refusal(uint32_t error) const override {
    return std::string("codec ") + table_.name + ": " + table_.refusal(error);
  }

 private:
  const CudaCodec& table_;
  const std::vector<double> params_;
  const std::shared_ptr<const KernelModule> kernels_;
};

}  // namespace hipress::cuda

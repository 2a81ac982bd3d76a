// SPDX-License-Identifier: Apache-2.0
//
// A codec's table of functions, with the values of its options.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/device/device.h"
#include "core/ops/cuda/cuda_codec.h"

namespace hipress::cuda {

class CodecFunctions final : public DeviceCodec {
 public:
  CodecFunctions(const CudaCodec& table, std::vector<double> params)
      : table_(table), params_(std::move(params)) {}

  const CudaCodec& table() const { return table_; }
  const double* params() const { return params_.data(); }

  std::string refusal(uint32_t error) const override {
    return std::string("codec ") + table_.name + ": " + table_.refusal(error);
  }

 private:
  const CudaCodec& table_;
  const std::vector<double> params_;
};

}  // namespace hipress::cuda

// SPDX-License-Identifier: Apache-2.0
//
// Kernels whose attributes name the codec.
#pragma once

#include <string>
#include <vector>

#include "frameworks/tensorflow/operators/codec_kernels.h"

namespace hipress::tensorflow_operators {

template <typename Value>
Value attribute(tf::OpKernelConstruction* construction, const char* name) {
  Value value;
  construction->SetStatus(construction->GetAttr(name, &value));
  return value;
}

/// `Kernel`: an EncodeKernel.
template <typename Kernel>
class EncodeForAnyCodec final : public Kernel {
 public:
  explicit EncodeForAnyCodec(tf::OpKernelConstruction* construction)
      : Kernel(construction, attribute<std::string>(construction, "codec"),
               attribute<std::vector<std::string>>(construction, "state_names")) {}
};

/// `Kernel`: one of the decoders.
template <typename Kernel>
class ForAnyCodec final : public Kernel {
 public:
  explicit ForAnyCodec(tf::OpKernelConstruction* construction)
      : Kernel(construction, attribute<std::string>(construction, "codec")) {}
};

}  // namespace hipress::tensorflow_operators

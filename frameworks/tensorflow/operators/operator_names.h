// SPDX-License-Identifier: Apache-2.0
//
// The names by which ranks match the operations that a kernel starts. The graph gives each operator names of
// its own (frameworks/tensorflow/python/graph_names.py); this file tells the runs of one operator apart.
#pragma once

#include <tensorflow/core/framework/op_kernel.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hipress::tensorflow_operators {

/// The attribute `loops` of the operators: how many loops of its graph an operator is in, or
/// kSameInEveryIteration.
inline constexpr int64_t kSameInEveryIteration = -1;

/// The operator's first input, with the iteration if it runs in a loop, because iterations may overlap.
std::vector<std::string> namesOf(tensorflow::OpKernelContext* context, int64_t loops);

/// Names that operators of this process use now. Two runs with one name have no order that all ranks share,
/// so that one could receive the values of the other.
class NamesInFlight {
 public:
  /// Throws DuplicateName if one of them is in flight.
  static std::shared_ptr<NamesInFlight> take(const std::vector<std::string>& names);
  ~NamesInFlight();
  NamesInFlight(const NamesInFlight&) = delete;
  NamesInFlight& operator=(const NamesInFlight&) = delete;

 private:
  NamesInFlight() = default;
  std::vector<std::string> taken_;
};

}  // namespace hipress::tensorflow_operators

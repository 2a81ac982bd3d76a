// SPDX-License-Identifier: Apache-2.0
//
// The names by which ranks match the operations of a kernel. The graph gives each operator its own names
// (frameworks/tensorflow/python/graph_names.py). This file distinguishes the runs of one operator.
#pragma once

#include <tensorflow/core/framework/op_kernel.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hipress::tensorflow_operators {

/// The attribute `loops` of the operators: the number of loops of its graph around an operator, or
/// kSameInEveryIteration.
inline constexpr int64_t kSameInEveryIteration = -1;

/// The operator's first input. In a loop the names get the iteration, because iterations may overlap.
std::vector<std::string> namesOf(tensorflow::OpKernelContext* context, int64_t loops);

/// The names of this process' running operators. Two runs with one name have no order that all ranks share,
/// so one run could receive the other's values.
class NamesInFlight {
 public:
  /// Throws DuplicateName if one of the names is in flight.
  static std::shared_ptr<NamesInFlight> take(const std::vector<std::string>& names);
  ~NamesInFlight();
  NamesInFlight(const NamesInFlight&) = delete;
  NamesInFlight& operator=(const NamesInFlight&) = delete;

 private:
  NamesInFlight() = default;
  std::vector<std::string> taken_;
};

}  // namespace hipress::tensorflow_operators

// SPDX-License-Identifier: Apache-2.0
//
// The tensors ranks have declared, and the numbers they were given.
//
// A tensor that stays has one entry for ever. Transient ones are matched by count: a rank's n-th declaration
// of a name belongs to the n-th entry, so that a rank that is one step ahead does not join the others' step.
// An entry goes when every rank that is not gone has declared it.
//
// A rank that declares a tensor differently is a dissenter. While there is one, a rank that declares the
// tensor later is told of the difference, too, even if its own declaration is right: it would otherwise wait
// for data that never come. A dissenter that comes back with the right specification makes the tensor usable
// again.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/control/request.h"
#include "core/control/roster.h"

namespace hipress::control {

class TensorTable {
 public:
  explicit TensorTable(const Roster& roster) : roster_(roster) {}

  void declare(int rank, uint64_t call, const DeclareRequest& request, Outbox& outbox);

  /// Forgets the transient tensors that only ranks that are gone have not declared.
  void rosterChanged();

 private:
  struct Tensor {
    uint32_t id = 0;
    int first =
        -1;  ///< The rank that declared it first: its specification is the one others are compared with.
    std::string specification;
    bool transient = false;
    std::vector<bool> declared;  ///< By rank.
    std::map<int, std::string> dissenters;
  };
  using Tensors = std::deque<Tensor>;

  Tensor& entryFor(int rank, Tensors& tensors, const DeclareRequest& request);
  bool finished(const Tensor& tensor) const;
  void drop(Tensors& tensors);
  uint32_t newId();

  const Roster& roster_;
  std::unordered_map<std::string, Tensors> tensors_;
  std::set<uint32_t> used_;
  uint32_t lastId_ = 0;
};

}  // namespace hipress::control

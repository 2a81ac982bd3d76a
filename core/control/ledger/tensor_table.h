// SPDX-License-Identifier: Apache-2.0
//
// The tensors that ranks have declared, and their numbers.
//
// A tensor that is not transient has one entry for ever. Transient tensors are matched by their count: the
// n-th declaration of a name by a rank belongs to the n-th entry, so that a rank one step ahead does not join
// the other ranks' step. An entry goes when every rank of its process set that is not gone has declared it.
//
// A rank that declares a tensor differently is a dissenter. As long as there is one, a rank that declares
// the tensor later gets the conflict, even if its own declaration is right: otherwise it would wait for
// messages that never come. A dissenter that returns with the right specification makes the tensor usable
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

  /// Declares the tensors of the request in their order, up to the first conflict.
  void declare(int rank, uint64_t call, const DeclareRequest& request, Outbox& outbox);

  /// The tensor is transient, and the rank has not declared it.
  bool awaits(int rank, uint32_t tensor);

  /// Refuses the tensor if it awaits the rank, which will not declare it: the next declaration of its name by
  /// this rank is of a later operation.
  void excuse(int rank, uint32_t tensor, const std::string& reason, Outbox& outbox);

  /// Drops the transient tensors that every remaining rank has declared.
  void rosterChanged();

 private:
  struct Tensor {
    uint32_t id = 0;
    int first =
        -1;  ///< The first rank to declare the tensor. The others are compared with its specification.
    std::string specification;
    bool transient = false;
    ProcessSet among;
    std::vector<bool> declared;  ///< Index: the rank.
    std::map<int, std::string> dissenters;
    Failure refusal;  ///< For the ranks that declare it later, too.
  };
  using Tensors = std::deque<Tensor>;

  Failure declare(int rank, const Declaration& declaration, const ProcessSet& among, uint32_t& number,
                  Outbox& outbox);
  Tensor& entryFor(int rank, Tensors& tensors, const Declaration& declaration, const ProcessSet& among);
  Tensor* awaiting(int rank, uint32_t tensor);
  void tell(const Tensor& tensor, const ControlNotice& notice, Outbox& outbox) const;
  bool finished(const Tensor& tensor) const;
  void drop(Tensors& tensors);
  uint32_t newId();

  const Roster& roster_;
  std::unordered_map<std::string, Tensors> tensors_;
  std::set<uint32_t> used_;
  uint32_t lastId_ = 0;
};

}  // namespace hipress::control

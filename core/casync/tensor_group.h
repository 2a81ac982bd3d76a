// SPDX-License-Identifier: Apache-2.0
//
// Tensors that travel as one: one encoding and one message per link for many small gradients. Each is still
// submitted and waited for alone; the last one submitted starts the group, and its result is copied to where
// each wants it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/casync/buffer_pool.h"
#include "core/casync/operation.h"
#include "core/casync/tensor.h"

namespace hipress {

/// One step of a group, until its members have ended.
struct GroupStep {
  BufferPool::Buffer values;                           ///< Of all members, in a row.
  std::vector<std::shared_ptr<Operation>> operations;  ///< By member; nullptr: not submitted yet.
  size_t submitted = 0;
  std::atomic<size_t> copied{0};  ///< Members whose values are in `values`.
  std::atomic<bool> any{false};   ///< Whether this rank has values of one.
};

struct TensorGroup {
  struct Member {
    uint32_t handle = 0;
    std::string name;
    Partition range;  ///< Of the elements that travel.
  };

  std::string name;
  uint32_t handle = 0;                   ///< Of what travels.
  std::shared_ptr<const Tensor> tensor;  ///< That: all members in a row.
  std::vector<Member> members;
  std::shared_ptr<GroupStep> step;  ///< That is being put together; nullptr: none.

  /// Those that were not submitted in the step that is being put together: "'a', 'b' and 3 more".
  std::string missing() const;
};

/// The tensors of each group, as indices of `specs`, in the order of their first ones.
std::vector<std::vector<size_t>> groupsOf(const std::vector<TensorSpec>& specs);

/// What travels for these members. Its name says who they are. Throws InvalidArgument and Unsupported, naming
/// those that cannot travel together.
TensorSpec groupSpec(const std::vector<TensorSpec>& specs, const std::vector<size_t>& members);

/// A member as ranks know it; how it travels is its group's.
std::shared_ptr<const Tensor> memberTensor(TensorSpec spec, uint32_t id);

}  // namespace hipress

// SPDX-License-Identifier: Apache-2.0
//
// The states of all codecs on this rank: residuals, velocities and other vectors that an encode leaves for
// the next step. They are double-buffered: encode reads a partition's old values and writes new ones
// elsewhere. The engine swaps the two when the average of the whole tensor is known to be finite.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/buffer_pool.h"
#include "core/codec/codec.h"

namespace hipress {

/// The role of the rank that encodes: a worker its own gradient, an aggregator the merged one.
enum class StateRole : unsigned char { kWorker = 0, kAggregator = 1 };

/// The state in which codecs keep values that they dropped and will send later.
inline const std::string kResidual = "residual";

class StateStore;

/// A pool for states. An encode takes new blocks before it releases the old ones, so the pool keeps spare
/// blocks of each size.
inline std::shared_ptr<BufferPool> makeStatePool(std::shared_ptr<Memory> memory) {
  return std::make_shared<BufferPool>(std::move(memory), BufferPool::Spare{4, BufferPool::kAnyNumber});
}

/// The old and the new states of one partition, for one encode. They stay valid for the life of the lease,
/// even if the tensor is changed or erased meanwhile.
class StateLease {
 public:
  /// `owner` nullptr: the codec has no states. A partition should have one lease at a time; of two leases,
  /// the last commit() wins.
  StateLease(std::shared_ptr<class TensorStates> owner, size_t partition);
  StateLease(const StateLease&) = delete;
  StateLease& operator=(const StateLease&) = delete;

  EncodeStates states() const { return {before_, after_}; }
  /// Makes the new values the tensor's states. A lease without commit() or stage() drops them.
  void commit();
  /// Leaves the new values to TensorStates::settle().
  void stage();

 private:
  const std::shared_ptr<class TensorStates> owner_;
  const size_t partition_;
  std::array<std::byte, 256> room_;  // for the lists of up to five states; longer lists are allocated
  std::pmr::monotonic_buffer_resource memory_{room_.data(), room_.size()};
  std::pmr::vector<BufferPool::Shared> blocks_{&memory_};
  std::pmr::vector<const float*> before_{&memory_};
  std::pmr::vector<float*> after_{&memory_};
};

/// All states of one tensor in one role, cut into the partitions of the open() call.
class TensorStates {
 public:
  /// Makes all staged values the tensor's states, or drops them. No lease may be open.
  void settle(bool keep);
  size_t states() const { return vectors_.size(); }
  /// The number of a state's values in a partition; 0 while an encode has left none there.
  size_t valuesLeft(size_t state, size_t partition) const;

 private:
  friend class StateStore;
  friend class StateLease;

  /// The values of one partition of a state; nullptr: all zero.
  using Blocks = std::vector<BufferPool::Shared>;
  struct Vector {
    CodecState state;
    std::shared_ptr<BufferPool> memory;
    std::vector<size_t> counts;  // element count of each partition of the tensor, in order
    Blocks blocks;
    size_t elements() const;                                                          // of the tensor
    size_t values(size_t partition) const { return state.count(counts[partition]); }  // floats
    size_t values() const { return state.count(elements()); }
  };

  std::shared_ptr<BufferPool> memory_;
  std::shared_ptr<std::mutex> mutex_;  // the store's mutex, which guards the vectors
  std::vector<std::shared_ptr<Vector>> vectors_;
  std::vector<size_t> counts_;
  Blocks staged_;  // of each partition, the new values of each state; nullptr: none

  void exchange(size_t state, size_t partition, BufferPool::Shared& values);
};

/// States by the tensor's name, the role and the state's name. They survive a change of ids, plans,
/// partitions and codecs, and a checkpoint can save them. Thread-safe.
class StateStore {
 public:
  StateStore();

  /// Opens the states of a tensor. `partitions`: the element count of each partition, in order. New states
  /// are zeros. States with other partitions are copied into these. Throws Mismatch if they have another
  /// number of elements, or other blocks; InvalidArgument if a partition begins inside a block of a state.
  /// The first lease of a partition takes its memory, so an aggregator's states cost memory only for the
  /// partitions that this rank aggregates. `place`: the device memory for the states, nullptr for host
  /// memory. States elsewhere move there.
  std::shared_ptr<TensorStates> open(const std::string& tensor, StateRole role,
                                     std::span<const CodecState> states, std::vector<size_t> partitions,
                                     std::shared_ptr<BufferPool> place = nullptr);

  /// A copy of one state, all partitions in a row; an empty vector if the state does not exist.
  std::vector<float> copy(const std::string& tensor, StateRole role, const std::string& state) const;

  /// Copies values of a state, from number `first` on, into `values`; zeros if the state does not exist.
  void read(const std::string& tensor, StateRole role, const std::string& state, size_t first,
            std::span<float> values) const;

  struct Entry {
    std::string tensor;
    StateRole role;
    CodecState state;
    size_t count;  ///< Of its values.
  };
  std::vector<Entry> entries() const;
  /// The entries of one tensor.
  std::vector<Entry> entries(const std::string& tensor) const;

  /// copy(), and drops the state: for values that continue without the codec that kept them.
  std::vector<float> take(const std::string& tensor, StateRole role, const std::string& state);

  /// Replaces a state by `values`, as if an encode in `partitions` (element counts) had just written them.
  /// Throws InvalidArgument if a partition begins inside a block of the state.
  void put(const std::string& tensor, StateRole role, const CodecState& state, std::vector<size_t> partitions,
           std::span<const float> values);

  /// Changes with every event after which open() may return something else.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  void erase(const std::string& tensor);
  void clear();
  size_t bytes() const;      ///< Size of all states, zeros included.
  size_t bytesHeld() const;  ///< Memory taken on the host, with spares and leases.

 private:
  using Key = std::tuple<std::string, StateRole, std::string>;

  static std::vector<float> joined(const TensorStates::Vector& vector);
  static void move(TensorStates::Vector& vector, const std::shared_ptr<BufferPool>& place);
  void cut(TensorStates::Vector& vector, const std::vector<size_t>& counts);

  std::shared_ptr<BufferPool> memory_;
  std::shared_ptr<std::mutex> mutex_;
  std::map<Key, std::shared_ptr<TensorStates::Vector>> vectors_;
  std::atomic<uint64_t> generation_{1};
};

}  // namespace hipress

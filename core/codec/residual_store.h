// SPDX-License-Identifier: Apache-2.0
//
// Error feedback's memory: what biased codecs held back, per tensor and role, kept by this rank from step to
// step.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace hipress {

/// Who dropped the values: the worker that encodes its own gradient, or whoever encodes an aggregate again.
enum class ResidualRole : unsigned char { kWorker = 0, kAggregator = 1 };

/// Residuals keyed by the tensor's name, so that they survive a change of ids, plans and partitions, and can
/// be saved and restored. Storage never moves while it exists: spans stay valid until erase() or clear().
/// Thread-safe for different (name, role); the caller orders accesses to one span.
class ResidualStore {
 public:
  /// The residual of a tensor of `count` elements, zeros when new. Throws Mismatch if it exists with another
  /// count. Memory is taken as it is first written: an aggregator's residual costs only the partitions it
  /// aggregates.
  std::span<float> at(const std::string& name, ResidualRole role, size_t count);

  /// A copy, or an empty vector if there is none.
  std::vector<float> copy(const std::string& name, ResidualRole role) const;

  struct Entry {
    std::string name;
    ResidualRole role;
    size_t count;
  };
  std::vector<Entry> entries() const;

  void erase(const std::string& name);
  void clear();
  size_t bytes() const;  ///< As if all of it had been written.

 private:
  using Key = std::tuple<std::string, ResidualRole>;
  struct Free {
    void operator()(float* values) const { std::free(values); }
  };
  struct Residual {
    std::unique_ptr<float, Free> values;
    size_t count = 0;

    std::span<float> span() const { return {values.get(), count}; }
  };

  mutable std::mutex mutex_;
  std::map<Key, Residual> residuals_;
};

}  // namespace hipress

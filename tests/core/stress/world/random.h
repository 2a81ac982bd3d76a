// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that a seed repeats. A seed cannot repeat the schedule of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace hipress::stress {

class Random {
 public:
  explicit Random(uint64_t seed) : generator_(seed) {}

  uint64_t seed() { return generator_(); }  ///< The seed of another generator.
  size_t below(size_t bound) { return static_cast<size_t>(generator_() % bound); }
  bool oneIn(size_t count) { return below(count) == 0; }
  template <typename T>
  T among(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    std::shuffle(values.begin(), values.end(), generator_);
  }

 private:
  std::mt19937_64 generator_;
};

}  // namespace hipress::stress

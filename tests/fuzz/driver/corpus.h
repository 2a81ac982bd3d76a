// SPDX-License-Identifier: Apache-2.0
//
// The inputs that are worth changing: each reached new code when it was found.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "tests/core/stress/world/random.h"
#include "tests/fuzz/driver/target.h"

namespace hipress::fuzz {

/// The files of a directory, sorted by name, so every run reads them in the same order.
std::vector<Seed> readInputs(const std::filesystem::path& directory);
Input readInput(const std::filesystem::path& file);
/// Throws std::runtime_error if the file cannot be written.
void writeInput(const std::filesystem::path& file, std::span<const uint8_t> input);

class Corpus {
 public:
  /// Each new input is also written to `directory`, if it is given; the constructor makes the directory.
  explicit Corpus(std::optional<std::filesystem::path> directory);

  void add(const Input& input);
  /// Marks all inputs until now as seeds.
  void markSeeds() { seeds_ = inputs_.size(); }
  /// An input: in half of the calls one of the latest, because they reach deepest. In a quarter of the calls
  /// it is a seed, because a valid message is closest to an almost valid one.
  const Input& choose(stress::Random& random) const;
  size_t size() const { return inputs_.size(); }

 private:
  std::optional<std::filesystem::path> directory_;
  std::vector<Input> inputs_;
  size_t seeds_ = 1;
};

}  // namespace hipress::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// The inputs worth changing: each had, when it was found, a way through the code that none before it had.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "tests/core/stress/world/random.h"
#include "tests/fuzz/driver/target.h"

namespace hipress::fuzz {

/// The files of a directory, sorted by name so that every run has them in one order.
std::vector<Seed> readInputs(const std::filesystem::path& directory);
Input readInput(const std::filesystem::path& file);
/// Throws std::runtime_error if the file cannot be written.
void writeInput(const std::filesystem::path& file, std::span<const uint8_t> input);

class Corpus {
 public:
  /// New inputs are also written to `directory`, which is made, if there is one.
  explicit Corpus(std::optional<std::filesystem::path> directory);

  void add(const Input& input);
  /// For what has been added until now.
  void markSeeds() { seeds_ = inputs_.size(); }
  /// Half the time one of the latest, because what has just been reached lies deepest; now and then a seed,
  /// because a message that is all right is closest to one that is almost.
  const Input& choose(stress::Random& random) const;
  size_t size() const { return inputs_.size(); }

 private:
  std::optional<std::filesystem::path> directory_;
  std::vector<Input> inputs_;
  size_t seeds_ = 1;
};

}  // namespace hipress::fuzz

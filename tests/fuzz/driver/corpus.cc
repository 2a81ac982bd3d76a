// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/driver/corpus.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace hipress::fuzz {
namespace {

/// The FNV-1a hash of an input as its name: equal inputs have equal names.
std::string contentName(const Input& input) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const uint8_t byte : input) hash = (hash ^ byte) * 0x100000001b3u;
  char text[20];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace

Input readInput(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::vector<Seed> readInputs(const std::filesystem::path& directory) {
  std::vector<Seed> inputs;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.is_regular_file()) inputs.push_back({entry.path().filename(), readInput(entry.path())});
  }
  std::ranges::sort(inputs, {}, &Seed::name);
  return inputs;
}

void writeInput(const std::filesystem::path& file, std::span<const uint8_t> input) {
  std::ofstream stream(file, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
  stream.close();
  if (!stream) throw std::runtime_error("cannot write " + file.string());
}

Corpus::Corpus(std::optional<std::filesystem::path> directory) : directory_(std::move(directory)) {
  if (directory_) std::filesystem::create_directories(*directory_);
}

void Corpus::add(const Input& input) {
  inputs_.push_back(input);
  if (!directory_) return;
  const std::filesystem::path file = *directory_ / contentName(input);
  if (!std::filesystem::exists(file)) writeInput(file, input);
}

const Input& Corpus::choose(stress::Random& random) const {
  const size_t latest = std::min<size_t>(inputs_.size(), 16);
  switch (random.below(4)) {
    case 0:
      return inputs_[random.below(seeds_)];
    case 1:
      return inputs_[random.below(inputs_.size())];
    default:
      return inputs_[inputs_.size() - 1 - random.below(latest)];
  }
}

}  // namespace hipress::fuzz

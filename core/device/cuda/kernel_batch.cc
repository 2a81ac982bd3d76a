// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/kernel_batch.h"

#include <algorithm>
#include <cstring>

namespace hipress::cuda {
namespace {

/// Adds room behind the last byte, aligned for any kernel's object; returns its place.
size_t addRoom(std::vector<std::byte>& to, size_t bytes) {
  constexpr size_t kAlignment = alignof(StartTable);
  const size_t at = (to.size() + kAlignment - 1) / kAlignment * kAlignment;
  to.resize(at + bytes);
  return at;
}

}  // namespace

void KernelBatch::add(DriverFunction function, unsigned blocks, const void* kernel, size_t bytes) {
  const size_t at = addRoom(objects_, bytes);
  std::memcpy(objects_.data() + at, kernel, bytes);
  lines_.back().push_back({function, blocks, at, bytes});
}

std::vector<KernelBatch::Joined> KernelBatch::join(std::vector<std::byte>& tables) const {
  size_t longest = 0;
  for (const auto& line : lines_) longest = std::max(longest, line.size());
  std::vector<Joined> joined;
  for (size_t step = 0; step < longest; ++step) {
    std::vector<std::vector<const One*>> kernels;  // those of one kernel in one list
    for (const auto& line : lines_) {
      if (step >= line.size()) continue;
      const One& one = line[step];
      auto same = std::ranges::find_if(
          kernels, [&](const auto& some) { return some.front()->function == one.function; });
      if (same == kernels.end()) same = kernels.insert(same, std::vector<const One*>{});
      same->push_back(&one);
    }
    for (const auto& some : kernels) {
      const One& first = *some.front();
      Joined start;
      start.function = first.function;
      start.bytes = first.bytes;
      if (some.size() == 1) {
        start.blocks = first.blocks;
        start.alone = objects_.data() + first.at;
      } else {
        start.number = some.size();
        start.kernelsAt = addRoom(tables, some.size() * first.bytes);
        start.endsAt = addRoom(tables, some.size() * sizeof(uint32_t));
        for (size_t k = 0; k < some.size(); ++k) {
          start.blocks += some[k]->blocks;
          const auto end = static_cast<uint32_t>(start.blocks);
          std::memcpy(tables.data() + start.kernelsAt + k * first.bytes, objects_.data() + some[k]->at,
                      first.bytes);
          std::memcpy(tables.data() + start.endsAt + k * sizeof(uint32_t), &end, sizeof(end));
        }
      }
      joined.push_back(start);
    }
  }
  return joined;
}

}  // namespace hipress::cuda

// SPDX-License-Identifier: Apache-2.0
#include "core/codec/residual_store.h"

#include <new>

#include "core/error.h"

namespace hipress {

std::span<float> ResidualStore::at(const std::string& name, ResidualRole role, size_t count) {
  const std::lock_guard lock(mutex_);
  const auto [position, isNew] = residuals_.try_emplace(Key{name, role});
  Residual& residual = position->second;
  if (isNew) {
    // calloc, because large blocks then come from the kernel as zeros that take no memory until written.
    residual.values.reset(static_cast<float*>(std::calloc(count > 0 ? count : 1, sizeof(float))));
    if (!residual.values) throw std::bad_alloc();
    residual.count = count;
  } else if (residual.count != count) {
    throw Error(ErrorKind::kMismatch,
                "residual of tensor '" + name + "' has " + std::to_string(residual.count) +
                    " elements, but the tensor now has " + std::to_string(count) +
                    "; a tensor whose shape changes needs another name, or reset its residual first");
  }
  return residual.span();
}

std::vector<float> ResidualStore::copy(const std::string& name, ResidualRole role) const {
  const std::lock_guard lock(mutex_);
  const auto position = residuals_.find(Key{name, role});
  if (position == residuals_.end()) return {};
  const auto values = position->second.span();
  return {values.begin(), values.end()};
}

std::vector<ResidualStore::Entry> ResidualStore::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> result;
  result.reserve(residuals_.size());
  for (const auto& [key, residual] : residuals_) {
    result.push_back({std::get<0>(key), std::get<1>(key), residual.count});
  }
  return result;
}

void ResidualStore::erase(const std::string& name) {
  const std::lock_guard lock(mutex_);
  residuals_.erase(Key{name, ResidualRole::kWorker});
  residuals_.erase(Key{name, ResidualRole::kAggregator});
}

void ResidualStore::clear() {
  const std::lock_guard lock(mutex_);
  residuals_.clear();
}

size_t ResidualStore::bytes() const {
  const std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const auto& [key, residual] : residuals_) total += residual.count * sizeof(float);
  return total;
}

}  // namespace hipress

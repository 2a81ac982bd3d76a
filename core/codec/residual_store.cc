// SPDX-License-Identifier: Apache-2.0
#include "core/codec/residual_store.h"

#include "core/error.h"

namespace hipress {

std::span<float> ResidualStore::at(const std::string& name, ResidualRole role, size_t count) {
  const std::lock_guard lock(mutex_);
  const auto [position, isNew] = residuals_.try_emplace(Key{name, role}, count, 0.0f);
  std::vector<float>& residual = position->second;
  if (!isNew && residual.size() != count) {
    throw Error(ErrorKind::kMismatch,
                "residual of tensor '" + name + "' has " + std::to_string(residual.size()) +
                    " elements, but the tensor now has " + std::to_string(count) +
                    "; a tensor whose shape changes needs another name, or reset its residual first");
  }
  return residual;
}

std::vector<float> ResidualStore::copy(const std::string& name, ResidualRole role) const {
  const std::lock_guard lock(mutex_);
  const auto position = residuals_.find(Key{name, role});
  return position == residuals_.end() ? std::vector<float>{} : position->second;
}

std::vector<ResidualStore::Entry> ResidualStore::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> result;
  result.reserve(residuals_.size());
  for (const auto& [key, residual] : residuals_) {
    result.push_back({std::get<0>(key), std::get<1>(key), residual.size()});
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
  for (const auto& [key, residual] : residuals_) total += residual.size() * sizeof(float);
  return total;
}

}  // namespace hipress

// SPDX-License-Identifier: Apache-2.0
#include "core/device/simulated_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "core/base/error.h"

namespace hipress {
namespace {

/// The byte that fills fresh memory, so that a read before the first write gives wrong results.
constexpr int kGarbage = 0xA5;
constexpr size_t kAlignment = 64;

size_t wholePages(size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

std::byte* mapped(int file, size_t bytes, int protection) {
  void* address = ::mmap(nullptr, bytes, protection, MAP_SHARED, file, 0);
  if (address == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(address);
}

/// The last block that begins at or before the address.
template <typename Blocks>
auto blockBefore(Blocks& blocks, const void* address) {
  const auto after = blocks.upper_bound(static_cast<const std::byte*>(address));
  return after == blocks.begin() ? blocks.end() : std::prev(after);
}

[[noreturn]] void outside(const char* what, size_t bytes) {
  throw transportError("the simulated device cannot use " + std::to_string(bytes) + " bytes " + what);
}

}  // namespace

SimulatedMemory::~SimulatedMemory() {
  while (!blocks_.empty()) free(const_cast<std::byte*>(blocks_.begin()->first));
}

void* SimulatedMemory::allocate(size_t bytes) {
  const size_t whole = wholePages(bytes == 0 ? 1 : bytes);
  const int file = ::memfd_create("hipress simulated device", MFD_CLOEXEC);
  if (file < 0) throw std::bad_alloc();
  const bool grown = ::ftruncate(file, static_cast<off_t>(whole)) == 0;
  std::byte* real = grown ? mapped(file, whole, PROT_READ | PROT_WRITE) : nullptr;
  std::byte* seen = grown ? mapped(file, whole, PROT_NONE) : nullptr;
  ::close(file);
  if (!grown) throw std::bad_alloc();
  std::memset(real, kGarbage, whole);
  const std::lock_guard lock(mutex_);
  blocks_[seen] = {real, bytes};
  return seen;
}

void SimulatedMemory::free(void* block) {
  if (block == nullptr) return;
  Block freed;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(static_cast<std::byte*>(block));
    if (found == blocks_.end()) return;
    freed = found->second;
    blocks_.erase(found);
  }
  const size_t whole = wholePages(freed.bytes == 0 ? 1 : freed.bytes);
  ::munmap(block, whole);
  ::munmap(freed.real, whole);
}

void SimulatedMemory::zero(void* block, size_t bytes) {
  std::memset(real(block, bytes), 0, bytes);
}

void SimulatedMemory::read(const void* block, void* host, size_t bytes) {
  if (bytes > 0) std::memcpy(host, real(block, bytes), bytes);
}

void SimulatedMemory::write(void* block, const void* host, size_t bytes) {
  if (bytes > 0) std::memcpy(real(block, bytes), host, bytes);
}

std::byte* SimulatedMemory::real(const void* address, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto found = blockBefore(blocks_, address);
  if (found == blocks_.end()) outside("that it does not have", bytes);
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(address) - found->first);
  if (offset > found->second.bytes || bytes > found->second.bytes - offset)
    outside("that it does not have, or no longer", bytes);
  return found->second.real + offset;
}

size_t SimulatedMemory::blocks() const {
  const std::lock_guard lock(mutex_);
  return blocks_.size();
}

SimulatedStaging::~SimulatedStaging() {
  while (!blocks_.empty()) free(const_cast<std::byte*>(blocks_.begin()->first));
}

void* SimulatedStaging::allocate(size_t bytes) {
  void* block = ::operator new(bytes, std::align_val_t{kAlignment});
  std::memset(block, kGarbage, bytes);
  const std::lock_guard lock(mutex_);
  blocks_[static_cast<std::byte*>(block)] = bytes;
  return block;
}

void SimulatedStaging::free(void* block) {
  {
    const std::lock_guard lock(mutex_);
    blocks_.erase(static_cast<std::byte*>(block));
  }
  ::operator delete(block, std::align_val_t{kAlignment});
}

size_t SimulatedStaging::blocks() const {
  const std::lock_guard lock(mutex_);
  return blocks_.size();
}

void SimulatedStaging::check(const void* address, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto found = blockBefore(blocks_, address);
  if (found == blocks_.end()) outside("of the host that are not staging", bytes);
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(address) - found->first);
  if (offset > found->second || bytes > found->second - offset)
    outside("of the host that are not staging, or no longer", bytes);
}

}  // namespace hipress

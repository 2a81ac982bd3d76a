// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/cuda_stream_shared.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace hipress::cuda {
namespace {

/// As encodes, decodes and sums want it.
constexpr size_t kScratchAlignment = 256;
/// Of tables that a stream keeps: those of some steps of large models.
constexpr size_t kMostTables = 256;
constexpr size_t kMostTablesBytes = size_t{16} << 20;

}  // namespace

CudaStream::Shared::~Shared() {
  const OnGpu there(*gpu);
  for (const Staged& each : staged) {
    driver.eventDestroy(each.copied);
    driver.hostFree(each.memory);
  }
  for (const DriverEvent event : events) driver.eventDestroy(event);
  for (const Tables& each : tables) driver.memoryFree(each.memory);
  if (counters != nullptr) driver.memoryFree(addressOf(counters));
  for (void* block : scratch) driver.memoryFree(addressOf(block));
  if (owned) driver.streamDestroy(stream);
}

void* CudaStream::Shared::scratchOf(size_t bytes, Result* status) {
  const size_t first =
      isJoining() ? (usedBytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment : 0;
  if (first + bytes <= scratchBytes) {
    usedBytes = first + bytes;
    return scratch.empty() ? nullptr : static_cast<std::byte*>(scratch.back()) + first;
  }
  // The size at least doubles, so that all outgrown blocks together take no more memory than the last one.
  const size_t room = std::max(bytes, 2 * scratchBytes);
  Address memory = 0;
  *status = driver.memoryAllocate(&memory, room);
  if (*status != kSuccess) return nullptr;
  auto* const block = reinterpret_cast<void*>(memory);
  scratch.push_back(block);
  scratchBytes = room;
  usedBytes = bytes;
  heldBytes += room;
  return block;
}

Counters* CudaStream::Shared::countersOf(Result* status) {
  if (counters == nullptr) {
    constexpr size_t kBytes = kMostJoined * sizeof(Counters);
    Address memory = 0;
    *status = driver.memoryAllocate(&memory, kBytes);
    if (*status != kSuccess) return nullptr;
    counters = reinterpret_cast<Counters*>(memory);
    *status = driver.fillAsync(memory, 0, kBytes, stream);
    if (*status != kSuccess) return nullptr;
  }
  return counters + (isJoining() ? line : 0);
}

const std::byte* CudaStream::Shared::tablesOf(std::vector<std::byte> content, Result* status) {
  const auto found = std::ranges::find(tables, content, &Tables::content);
  if (found != tables.end()) {
    std::rotate(found, found + 1, tables.end());
    return reinterpret_cast<const std::byte*>(tables.back().memory);
  }
  const Address memory = roomForTables(content.size(), status);
  if (*status != kSuccess) return nullptr;
  void* const from = stage(content, status);
  if (*status != kSuccess) return nullptr;
  *status = driver.copyAsync(memory, addressOf(from), content.size(), stream);
  if (*status == kSuccess) *status = driver.eventRecord(staged.back().copied, stream);
  // Later work may take the room only behind the kernels that read it, which are on the stream before it.
  if (*status == kSuccess && !tables.empty() && tables.back().memory == memory)
    tables.back().content = std::move(content);
  return reinterpret_cast<const std::byte*>(memory);
}

Address CudaStream::Shared::roomForTables(size_t bytes, Result* status) {
  const size_t room = std::bit_ceil(bytes);
  if (tables.size() < kMostTables && tablesBytes + room <= kMostTablesBytes) {
    Tables made;
    *status = driver.memoryAllocate(&made.memory, room);
    if (*status != kSuccess) return 0;
    made.room = room;
    tablesBytes += room;
    tables.push_back(std::move(made));
    return tables.back().memory;
  }
  const auto fits = std::ranges::find_if(tables, [&](const Tables& each) { return each.room >= bytes; });
  if (fits == tables.end()) return addressOf(scratchOf(bytes, status));
  fits->content.clear();
  std::rotate(fits, fits + 1, tables.end());
  return tables.back().memory;
}

void* CudaStream::Shared::stage(const std::vector<std::byte>& bytes, Result* status) {
  const auto isFree = [&](const Staged& each) {
    return each.bytes >= bytes.size() && driver.eventQuery(each.copied) == kSuccess;
  };
  auto found = std::ranges::find_if(staged, isFree);
  if (found == staged.end()) {
    Staged made;
    made.bytes = std::bit_ceil(bytes.size());
    *status = driver.hostAllocate(&made.memory, made.bytes, kHostAllocPortable);
    if (*status != kSuccess) return nullptr;
    *status = driver.eventCreate(&made.copied, kEventDisableTiming);
    if (*status != kSuccess) {
      driver.hostFree(made.memory);
      return nullptr;
    }
    found = staged.insert(staged.end(), made);
  }
  std::memcpy(found->memory, bytes.data(), bytes.size());
  // The copy is not on the stream yet, but this thread has the lock until it is.
  std::swap(*found, staged.back());
  return staged.back().memory;
}

Result CudaStream::Shared::start(const KernelBatch& joined) {
  std::vector<std::byte> content;
  const std::vector<KernelBatch::Joined> starts = joined.join(content);
  Result status = kSuccess;
  const std::byte* const there = content.empty() ? nullptr : tablesOf(std::move(content), &status);
  for (const KernelBatch::Joined& each : starts) {
    if (status != kSuccess) return status;
    StartTable table{};
    if (each.alone == nullptr)
      table = {there + each.kernelsAt, reinterpret_cast<const uint32_t*>(there + each.endsAt),
               static_cast<uint32_t>(each.number)};
    status = startKernel(driver, stream, each.function, each.blocks, table, each.alone, each.bytes);
  }
  return status;
}

DriverEvent CudaStream::Shared::record() {
  DriverEvent event = nullptr;
  if (!events.empty()) {
    event = events.back();
    events.pop_back();
  } else if (driver.eventCreate(&event, kEventDisableTiming | kEventBlockingSync) != kSuccess) {
    return nullptr;
  }
  if (driver.eventRecord(event, stream) == kSuccess) return event;
  driver.eventDestroy(event);
  return nullptr;
}

Failure CudaStream::Shared::wait(DriverEvent event) {
  const OnGpu there(*gpu);
  const Result status = event != nullptr ? driver.eventSynchronize(event) : driver.streamSynchronize(stream);
  const std::lock_guard lock(mutex);
  if (event != nullptr) events.push_back(event);
  if (status != kSuccess) fail("its earlier work", status);
  return failure;
}

void CudaStream::Shared::fail(const char* what, Result status) {
  if (failure == nullptr) failure = std::make_shared<Error>(gpu->error(what, status));
}

}  // namespace hipress::cuda

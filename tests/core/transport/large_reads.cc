// SPDX-License-Identifier: Apache-2.0
//
// Reads more of a neighbour's memory than Linux reads in one call. The program prints failed expectations.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/transport/neighbour/neighbour_memory.h"

namespace {

using namespace hipress;

constexpr size_t kPiece = size_t{64} << 20;
constexpr size_t kPieces = 34;  // 2.1 GiB
constexpr size_t kLast = kPiece * kPieces - 4096;

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("%s\n", what);
  ++failures;
}

std::byte* mapped(void* at, int file, int flags, size_t bytes) {
  void* const address = ::mmap(at, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (address == MAP_FAILED) std::abort();
  return static_cast<std::byte*>(address);
}

/// Addresses for `kPieces` pieces that share the memory of one piece, and then one page of its own.
std::byte* longMemory() {
  const int file = ::memfd_create("piece", 0);
  if (file < 0 || ::ftruncate(file, kPiece) != 0) std::abort();
  std::byte* const first = mapped(nullptr, -1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, kPiece * kPieces);
  for (size_t piece = 0; piece < kPieces; ++piece)
    mapped(first + piece * kPiece, file, MAP_SHARED | MAP_FIXED, kPiece);
  ::close(file);
  mapped(first + kLast, -1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, 4096);
  return first;
}

}  // namespace

int main() {
  std::byte* const from = longMemory();
  std::byte* const into = longMemory();
  std::memset(from + kLast, 7, 4096);
  readMemory(MemoryReference::to(from), {into, kPiece * kPieces});
  expect(into[kLast] == std::byte{7} && into[kPiece * kPieces - 1] == std::byte{7},
         "the bytes behind the first 2 GiB are read, too");

  ::munmap(from + kLast, 4096);
  std::string said;
  try {
    readMemory(MemoryReference::to(from), {into, kPiece * kPieces});
  } catch (const Error& error) {
    said = error.what();
  }
  expect(said.find("cannot be read (Bad address)") != std::string::npos,
         "memory that ends behind the first 2 GiB is an error");
  return failures == 0 ? 0 : 1;
}

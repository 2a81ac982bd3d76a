// SPDX-License-Identifier: Apache-2.0
//
// How the host's part of a codec starts kernels. The codec may be in a library that a user has compiled: only
// plain functions and pointers cross the border.
#pragma once

#include <cstddef>

namespace hipress::cuda {

/// One stream of a GPU, together with the loaded kernels of one codec.
struct Launcher {
  /// Starts `blocks` blocks of the kernel that HIPRESS_KERNEL calls `symbol`. `kernel` is the kernel's object
  /// of `bytes` bytes, which is copied before the function returns. Errors show where the launcher's owner
  /// asks for them.
  void (*start)(const Launcher& launcher, const char* symbol, unsigned blocks, const void* kernel,
                size_t bytes);
};

using Stream = const Launcher*;

}  // namespace hipress::cuda

// SPDX-License-Identifier: Apache-2.0
//
// The interface by which the host's part of a codec starts kernels. The codec may be in a library that a user
// has compiled, so only plain functions and pointers cross the border.
#pragma once

#include <cstddef>

namespace hipress::cuda {

/// One stream of a GPU, with the loaded kernels of one codec.
struct Launcher {
  /// Starts `blocks` blocks of the kernel with HIPRESS_KERNEL's name `symbol`. `kernel` is the kernel's
  /// object of `bytes` bytes, and is copied before the function returns. The owner of the launcher gets the
  /// errors when it asks for them.
  void (*start)(const Launcher& launcher, const char* symbol, unsigned blocks, const void* kernel,
                size_t bytes);
};

using Stream = const Launcher*;

}  // namespace hipress::cuda

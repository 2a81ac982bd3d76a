// SPDX-License-Identifier: Apache-2.0
//
// Elements inside byte buffers. A payload follows a header, and a partition starts anywhere in a tensor, so
// no address from outside is known to be aligned. To read a float there through `float*` is undefined. The
// type is a struct, because GCC drops the attributes of a typedef that passes through a template argument.
// The vector code is the same as for T.
#pragma once

#include <bit>
#include <cstdint>

namespace hipress {

static_assert(std::endian::native == std::endian::little,
              "payloads are little endian and are written in place");

/// T at any address, in memory that may have been written as another type.
template <typename T>
struct [[gnu::packed, gnu::may_alias]] Unaligned {
  T value;
};
static_assert(alignof(Unaligned<double>) == 1 && sizeof(Unaligned<double>) == 8);

}  // namespace hipress

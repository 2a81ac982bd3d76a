// SPDX-License-Identifier: Apache-2.0
//
// CRC-32C (Castagnoli), as in iSCSI, ext4 and RFC 3720: the payload checksum of the wire format.
#pragma once

#include <cstdint>

#include "core/codec/codec.h"

namespace hipress {

uint32_t crc32c(ConstBytes bytes);

}  // namespace hipress

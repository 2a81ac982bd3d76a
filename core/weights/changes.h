// SPDX-License-Identifier: Apache-2.0
//
// The elements of a tensor whose bytes differ from an older version, as bytes: docs/wire-format.md,
// "Changes". The payload has values instead of differences, so repeated application is exact.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace hipress {

/// The changes from `old` to `now`. `old` becomes a copy of `now`. Empty if the changes would take more than
/// `limit` bytes: all of `now` is shorter then. `elementBytes` is 1, 2, 4, 8 or 16 and divides both sizes,
/// which are equal. Throws InvalidArgument otherwise.
std::optional<std::vector<std::byte>> encodeChanges(std::span<std::byte> old, std::span<const std::byte> now,
                                                    size_t elementBytes, size_t limit);

/// Throws CorruptPayload, with the place, unless `changes` fit a tensor of `tensorBytes` bytes.
void checkChanges(std::span<const std::byte> changes, size_t tensorBytes, size_t elementBytes);

/// Writes the changed elements into `tensor`. Throws the errors of checkChanges() while it writes: some
/// elements may then have been written.
void applyChanges(std::span<std::byte> tensor, std::span<const std::byte> changes, size_t elementBytes);

}  // namespace hipress

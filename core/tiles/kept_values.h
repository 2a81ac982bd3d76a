// SPDX-License-Identifier: Apache-2.0
//
// Which elements of each tile of several tensors are sent, and a number of 2 bits for each of them, in few
// bytes: docs/wire-format.md, "SparseLoCo". Gradients have rows and columns with many large values and others
// with few; the code learns it from the elements before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hipress {

/// How a tensor is cut into tiles, and how many elements of each are sent.
struct TileGrid {
  uint32_t tiles = 0;
  uint32_t across = 0;  ///< Tiles beside each other. Divides `tiles`.
  uint32_t height = 0;  ///< Of a tile.
  uint32_t width = 0;
  uint32_t kept = 0;  ///< Elements of each tile; all of them need no indices.

  uint32_t size() const { return height * width; }
  size_t indices() const { return kept == size() ? 0 : size_t{tiles} * kept; }
  size_t values() const { return size_t{tiles} * kept; }
};

/// `indices`: of all grids in turn, ascending within a tile. `bins`: 0 to 3, one for each value. Throws
/// InvalidArgument for others.
std::vector<std::byte> encodeKept(std::span<const TileGrid> grids, std::span<const uint16_t> indices,
                                  std::span<const uint8_t> bins);

/// The spans have as many elements as encodeKept() has taken. Throws CorruptPayload if the bytes are more or
/// fewer than those of the values that they stand for. Other bytes stand for other values: the caller has a
/// checksum.
void decodeKept(std::span<const TileGrid> grids, std::span<const std::byte> bytes,
                std::span<uint16_t> indices, std::span<uint8_t> bins);

}  // namespace hipress

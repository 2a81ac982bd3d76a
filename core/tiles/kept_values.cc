// SPDX-License-Identifier: Apache-2.0
#include "core/tiles/kept_values.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/tiles/chance.h"

namespace hipress {
namespace {

constexpr uint32_t kMostElements = 4096;  // of a tile
constexpr uint32_t kOne = 256;            // a sent element adds this to its column's weight
constexpr int kFading = 5;                // a weight loses a 32nd with each row

/// Of columns, by their weight.
constexpr std::array<uint32_t, 7> kColumnClasses{64, 192, 384, 640, 1024, 1792, 3072};
constexpr size_t kRowClasses = 4;

/// A weight stays below kOne << kFading, and the limits of classes are multiples of 64.
constexpr std::array<uint8_t, (kOne << kFading) / 64> kClassOf = [] {
  std::array<uint8_t, (kOne << kFading) / 64> classes{};
  for (size_t i = 0; i < classes.size(); ++i) {
    for (const uint32_t limit : kColumnClasses) classes[i] += 64 * i >= limit;
  }
  return classes;
}();

size_t columnClass(uint32_t weight) {
  return kClassOf[weight / 64];
}

size_t rowClass(uint32_t sentInRow) {
  return std::min<size_t>(kRowClasses - 1, (sentInRow + 1) / 2);
}

/// Three decisions make a number of 2 bits: the higher bit, and the lower bit after each of both.
using BinChances = std::array<Chance, 3>;

constexpr uint32_t kSeldom = uint32_t{1} << (Chance::kBits - 6);  // a 64th
constexpr uint32_t kEven = uint32_t{1} << (Chance::kBits - 1);

BinChances evenBins() {
  return {Chance(kEven), Chance(kEven), Chance(kEven)};
}

/// Codes the tensors of a message one after the other. `Index` and `Bin` are constant for an encoder.
template <typename Coder, typename Index, typename Bin>
class KeptCoder {
 public:
  KeptCoder(Coder& coder, Index* indices, Bin* bins) : coder_(coder), indices_(indices), bins_(bins) {}

  void code(const TileGrid& grid) {
    if (grid.kept == grid.size()) {
      for (size_t i = 0; i < grid.values(); ++i) codeBin(coder_, ofAll_);
      return;
    }
    columns_.assign(size_t{grid.across} * grid.width, 0);
    for (uint32_t tile = 0; tile < grid.tiles; ++tile) {
      codeTile(grid, columns_.data() + size_t{tile % grid.across} * grid.width);
    }
  }

 private:
  void codeTile(const TileGrid& grid, uint32_t* columns) {
    // In registers: a pointer may not point to a local coder.
    Coder coder = std::move(coder_);
    uint32_t missing = grid.kept;
    size_t before = 0;  // 1 + the last value's bin
    for (uint32_t row = 0; row < grid.height; ++row) {
      uint32_t inRow = 0;
      for (uint32_t column = 0; column < grid.width && missing > 0; ++column) {
        if (!codePlace(coder, grid, row * grid.width + column, missing, columns[column], inRow)) continue;
        before = size_t{1} + codeBin(coder, ofChosen_[before]);
        columns[column] += kOne;
        ++inRow;
        --missing;
      }
      for (uint32_t column = 0; column < grid.width; ++column) columns[column] -= columns[column] >> kFading;
    }
    coder_ = std::move(coder);
  }

  bool codePlace(Coder& coder, const TileGrid& grid, uint32_t place, uint32_t missing, uint32_t weight,
                 uint32_t inRow) {
    bool sent = true;  // without a decision if all that are left are sent
    if (missing < grid.size() - place) {
      Chance& chance = places_[columnClass(weight) * kRowClasses + rowClass(inRow)];
      if constexpr (Coder::kDecodes) {
        sent = coder.bit(chance, false);
      } else {
        sent = coder.bit(chance, *indices_ == place);
      }
    }
    if (!sent) return false;
    if constexpr (Coder::kDecodes) *indices_ = static_cast<uint16_t>(place);
    ++indices_;
    return true;
  }

  uint8_t codeBin(Coder& coder, BinChances& chances) {
    const uint8_t given = Coder::kDecodes ? uint8_t{0} : *bins_;
    const bool high = coder.bit(chances[0], (given >> 1) != 0);
    const bool low = coder.bit(chances[high ? 2 : 1], (given & 1) != 0);
    const auto bin = static_cast<uint8_t>((high ? 2 : 0) + (low ? 1 : 0));
    if constexpr (Coder::kDecodes) *bins_ = bin;
    ++bins_;
    return bin;
  }

  Coder& coder_;
  Index* indices_;
  Bin* bins_;
  std::vector<uint32_t> columns_;
  std::vector<Chance> places_ =
      std::vector<Chance>((kColumnClasses.size() + 1) * kRowClasses, Chance(kSeldom));
  std::array<BinChances, 5> ofChosen_{evenBins(), evenBins(), evenBins(), evenBins(), evenBins()};
  BinChances ofAll_ = evenBins();
};

void checkGrids(std::span<const TileGrid> grids, size_t indices, size_t bins) {
  size_t wantedIndices = 0;
  size_t wantedBins = 0;
  for (const TileGrid& grid : grids) {
    if (grid.across == 0 || grid.tiles % grid.across != 0 || grid.height > kMostElements ||
        grid.width > kMostElements || grid.size() > kMostElements || grid.kept > grid.size()) {
      throw invalidArgument("tiles of " + std::to_string(grid.height) + " × " + std::to_string(grid.width) +
                            " elements, of which " + std::to_string(grid.kept) + " are sent, " +
                            std::to_string(grid.across) + " of " + std::to_string(grid.tiles) +
                            " beside each other, do not exist");
    }
    wantedIndices += grid.indices();
    wantedBins += grid.values();
  }
  if (wantedIndices == indices && wantedBins == bins) return;
  throw invalidArgument("the tiles have " + std::to_string(wantedIndices) + " indices and " +
                        std::to_string(wantedBins) + " values, given are " + std::to_string(indices) +
                        " and " + std::to_string(bins));
}

void checkIndices(std::span<const TileGrid> grids, const uint16_t* index) {
  for (const TileGrid& grid : grids) {
    for (size_t i = 0; i < grid.indices(); ++i, ++index) {
      const bool first = i % grid.kept == 0;
      if (*index < grid.size() && (first || *index > index[-1])) continue;
      throw invalidArgument("the indices of a tile do not ascend, or are not below " +
                            std::to_string(grid.size()));
    }
  }
}

}  // namespace

std::vector<std::byte> encodeKept(std::span<const TileGrid> grids, std::span<const uint16_t> indices,
                                  std::span<const uint8_t> bins) {
  checkGrids(grids, indices.size(), bins.size());
  checkIndices(grids, indices.data());
  if (std::any_of(bins.begin(), bins.end(), [](uint8_t bin) { return bin > 3; }))
    throw invalidArgument("a value's bin is not 0 to 3");
  ChanceEncoder encoder;
  KeptCoder<ChanceEncoder, const uint16_t, const uint8_t> coder(encoder, indices.data(), bins.data());
  for (const TileGrid& grid : grids) coder.code(grid);
  return encoder.finish();
}

void decodeKept(std::span<const TileGrid> grids, std::span<const std::byte> bytes,
                std::span<uint16_t> indices, std::span<uint8_t> bins) {
  checkGrids(grids, indices.size(), bins.size());
  ChanceDecoder decoder(bytes);
  KeptCoder<ChanceDecoder, uint16_t, uint8_t> coder(decoder, indices.data(), bins.data());
  for (const TileGrid& grid : grids) coder.code(grid);
  if (decoder.encodedBytes() == bytes.size()) return;
  throw corruptPayload("the coded values end after " + std::to_string(decoder.encodedBytes()) +
                       " bytes, and " + std::to_string(bytes.size()) + " have come");
}

}  // namespace hipress

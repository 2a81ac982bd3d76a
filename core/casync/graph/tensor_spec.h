// SPDX-License-Identifier: Apache-2.0
//
// What all ranks agree on about a tensor: its name, type and size, and the options of its collective.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/element/dtype.h"
#include "core/matrix/low_rank.h"

namespace hipress {

class Device;

/// In the order of TensorSpec::options.
enum class Collective : uint8_t { kAllreduce, kBroadcast, kAllgather, kAlltoall, kReducescatter };
enum class Reduction : uint8_t { kAverage, kSum, kMin, kMax, kProduct };

/// As in "allgather".
std::string_view collectiveName(Collective collective);
/// As in "average".
std::string_view reductionName(Reduction reduction);

/// Of collectives that combine the ranks' values.
struct ReduceOptions {
  Reduction reduction = Reduction::kAverage;
  double prescale = 1.0;   ///< Every rank's values are multiplied by it before encoding.
  double postscale = 1.0;  ///< The sum (or average) is multiplied by it.
};

struct AllreduceOptions : ReduceOptions {
  std::string codec = "none";
  std::string topology = "ps";
  int partitions = 0;             ///< 0: by size (EngineOptions::partitionBytes).
  uint64_t minCompressBytes = 0;  ///< Smaller tensors are sent without a codec.
  std::string group;              ///< Tensors of one group are sent as one (tensor_group.h); empty: alone.
};

struct BroadcastOptions {
  int root = 0;        ///< All ranks get the values of this rank.
  int partitions = 0;  ///< As of an allreduce.
};

/// Elements from each rank, and for each rank. Empty: not known yet; the tensor's first step tells
/// (block_exchange.h).
struct AllgatherOptions {
  std::vector<uint64_t> received;
  /// The zeros at the end of a block do not travel: blocks of bytes whose ranks do not know how many they
  /// need.
  bool trimmed = false;
};
struct AlltoallOptions {
  std::vector<uint64_t> received;
  std::vector<uint64_t> sent;
};

struct ReducescatterOptions : ReduceOptions {
  uint64_t rows = 0;  ///< The first dimension, which is divided among the ranks.
};

struct TensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  uint64_t count = 0;  ///< Elements that this rank has.
  /// For messages and comparison, e.g. "[64, 3, 3, 3]"; with * for a dimension that may differ between ranks,
  /// and the memory order behind it if that is not row-major. The first dimension is the slowest in memory.
  std::string shape;
  std::shared_ptr<Device> device;  ///< Where its values are; nullptr: on the host. Ranks may differ in it.
  int priority = 0;                ///< Higher goes first. Ranks may differ in it.
  bool transient = false;          ///< Used once: declared anew for every operation.
  std::variant<AllreduceOptions, BroadcastOptions, AllgatherOptions, AlltoallOptions, ReducescatterOptions>
      options;

  Collective collective() const { return static_cast<Collective>(options.index()); }
  /// nullptr: it is another collective.
  const AllreduceOptions* allreduce() const { return std::get_if<AllreduceOptions>(&options); }
  /// nullptr: the collective does not combine values.
  const ReduceOptions* reduce() const;
  /// AllgatherOptions::trimmed.
  bool trimmed() const;
  /// The group with which it is sent; empty: it is sent alone.
  const std::string& group() const;

  /// Everything that must be equal on all ranks, as text: of the codec all options, and a loaded one's
  /// fingerprint.
  std::string describe() const;
  /// Throws InvalidArgument, Unsupported.
  void check(int worldSize) const;
};

/// The tensor as a matrix: its first dimension, and all others together. A tensor of one dimension, or of
/// none, is a matrix of one row. Throws InvalidArgument if the shape's dimensions do not give the count.
MatrixShape matrixShape(const TensorSpec& spec);

}  // namespace hipress

// SPDX-License-Identifier: Apache-2.0
//
// The agreement of all ranks on one tensor: its name, type and size, and the options of its collective.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/process_set.h"
#include "core/element/dtype.h"
#include "core/matrix/low_rank.h"

namespace hipress {

class Device;

/// In the order of TensorSpec::options.
enum class Collective : uint8_t { kAllreduce, kBroadcast, kAllgather, kAlltoall, kReducescatter };
enum class Reduction : uint8_t { kAverage, kSum, kMin, kMax, kProduct };

/// The name in texts, such as "allgather".
std::string_view collectiveName(Collective collective);
/// The name in texts, such as "average".
std::string_view reductionName(Reduction reduction);

/// The options of collectives that combine the ranks' values.
struct ReduceOptions {
  Reduction reduction = Reduction::kAverage;
  double prescale = 1.0;   ///< Factor of every rank's values before the encode.
  double postscale = 1.0;  ///< Factor of the sum (or average).
};

struct AllreduceOptions : ReduceOptions {
  std::string codec = "none";
  std::string topology = "ps";
  int partitions = 0;             ///< 0: by size (EngineOptions::partitionBytes).
  uint64_t minCompressBytes = 0;  ///< Smaller tensors travel without a codec.
  std::string group;              ///< The tensors of a group travel as one (tensor_group.h); empty: none.
  int64_t greatest = 0;           ///< Of int8: no value of a rank is greater in magnitude. 0: unknown.
};

struct BroadcastOptions {
  int root = 0;        ///< The rank whose values all ranks get: its number in the job.
  int partitions = 0;  ///< Like AllreduceOptions::partitions.
};

/// Elements from each rank, and for each rank, by their positions in the process set. Empty: the ranks
/// exchange the numbers in the tensor's first step (block_exchange.h).
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
  uint64_t rows = 0;  ///< The first dimension, which the ranks divide.
};

struct TensorSpec {
  std::string name;
  /// The name in every process and for every model, where `name` is the name among the tensors of this
  /// process. Owners and random numbers come from it, so that equal models get the same bits. Empty: there is
  /// none.
  std::string lastingName;
  DType dtype = DType::kFloat32;
  uint64_t count = 0;  ///< Elements of this rank.
  /// For messages and comparison, e.g. "[64, 3, 3, 3]". A dimension that may differ between ranks is *. A
  /// memory order other than row-major follows the shape. The first dimension is the slowest in memory.
  std::string shape;
  std::shared_ptr<Device> device;  ///< Device of the values; nullptr: the host. May differ between ranks.
  int priority = 0;                ///< Higher goes first. May differ between ranks.
  bool transient = false;          ///< Used once: the caller declares the tensor anew for every operation.
  ProcessSet among;                ///< The ranks that combine or exchange their values.
  std::variant<AllreduceOptions, BroadcastOptions, AllgatherOptions, AlltoallOptions, ReducescatterOptions>
      options;

  Collective collective() const { return static_cast<Collective>(options.index()); }
  /// nullptr for another collective.
  const AllreduceOptions* allreduce() const { return std::get_if<AllreduceOptions>(&options); }
  /// nullptr if the collective does not combine values.
  const ReduceOptions* reduce() const;
  /// AllgatherOptions::trimmed.
  bool trimmed() const;
  /// The name of its group; empty: it has no group.
  const std::string& group() const;

  /// All properties that must be equal on all ranks, as text: with all options of the codec, and with the
  /// fingerprint of a loaded codec.
  std::string describe() const;
  /// Throws InvalidArgument, Unsupported. `rank`: this rank, of `worldSize` ranks in the job.
  void check(int rank, int worldSize) const;
};

/// The tensor as a matrix: the first dimension, and all others together. A tensor of one dimension, or of
/// none, is a matrix of one row. Throws InvalidArgument if the shape's dimensions do not give the count.
MatrixShape matrixShape(const TensorSpec& spec);

}  // namespace hipress

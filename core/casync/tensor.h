// SPDX-License-Identifier: Apache-2.0
//
// What all ranks agree on about a tensor, and what this rank derives from that once: its partitions and task
// graph.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/casync/partition.h"
#include "core/casync/task_graph.h"
#include "core/codec/codec.h"
#include "core/element/dtype.h"
#include "core/element/reduce.h"
#include "core/transport/transport.h"

namespace hipress {

class Device;

enum class Collective : uint8_t { kAllreduce, kBroadcast, kAllgather, kAlltoall, kReducescatter };
enum class Reduction : uint8_t { kAverage, kSum, kMin, kMax, kProduct };

/// As in "allgather".
std::string_view collectiveName(Collective collective);
/// As in "average".
std::string_view reductionName(Reduction reduction);

struct TensorSpec {
  std::string name;
  Collective collective = Collective::kAllreduce;
  DType dtype = DType::kFloat32;
  uint64_t count = 0;  ///< Elements that this rank has.
  /// For messages and comparison, e.g. "[64, 3, 3, 3]"; with * for a dimension that may differ between ranks.
  std::string shape;
  Reduction reduction = Reduction::kAverage;
  double prescale = 1.0;   ///< Every rank's values are multiplied by it before encoding.
  double postscale = 1.0;  ///< The sum (or average) is multiplied by it.
  int root = 0;            ///< Broadcast: whose values everybody gets.
  uint64_t rows = 0;       ///< Reducescatter: the first dimension, which is divided among the ranks.
  /// Allgather, alltoall: elements from each rank. Empty: not known yet; the tensor's first step tells, see
  /// Engine::exchange().
  std::vector<uint64_t> received;
  std::vector<uint64_t> sent;  ///< Alltoall: elements for each rank.
  std::string codec = "none";
  std::string topology = "ps";
  int partitions = 0;              ///< 0: by size (EngineOptions::partitionBytes).
  uint64_t minCompressBytes = 0;   ///< Smaller tensors are sent as they are.
  std::string group;               ///< Tensors of one group travel as one (tensor_group.h); empty: alone.
  int priority = 0;                ///< Higher goes first. Ranks may differ in it.
  bool transient = false;          ///< Used once: declared anew for every operation.
  std::shared_ptr<Device> device;  ///< Where its values are; nullptr: on the host. Ranks may differ in it.

  /// Everything that must be equal on all ranks, as text: of the codec all options, and a loaded one's
  /// fingerprint.
  std::string describe() const;
};

/// One partition and how it travels.
struct TensorPartition {
  Partition range;   ///< Of this rank's values.
  Partition output;  ///< Of the result; the same, unless a collective moves blocks.
  bool raw = true;   ///< Sent as it is: no codec, or the codec would not shrink it.
  size_t maxPayloadBytes = 0;
};

/// Immutable once made.
struct Tensor {
  TensorSpec spec;
  uint32_t id = 0;
  CodecPointer codec;           ///< `none` when the tensor is not compressed.
  CodecPointer aggregateCodec;  ///< Encodes merged values; what it makes `codec` decodes. Often the same.
  std::vector<TensorPartition> partitions;
  TaskGraph graph;
  Combination combination = Combination::kSum;
  double inputFactor = 1.0;      ///< Applied to this rank's values: prescale.
  double aggregateFactor = 1.0;  ///< Applied to the merged values: postscale, and 1/N for averages.

  bool compressed() const;   ///< Whether any partition is encoded by a codec.
  bool keepsStates() const;  ///< Whether encoding reads and writes states.
  std::vector<size_t> partitionCounts() const;
  size_t inputBytes() const { return static_cast<size_t>(spec.count) * elementSize(spec.dtype); }
  size_t outputBytes() const;
};

struct TensorPlan {
  int rank = 0;
  int worldSize = 1;
  size_t partitionBytes = kFavouredPayloadBytes;
  std::vector<int> hosts;  ///< Number of each rank's host; empty: all on one.
};

/// Checks the specification and builds codec, partitions and graph. Throws InvalidArgument, Unsupported.
std::shared_ptr<const Tensor> planTensor(TensorSpec spec, uint32_t id, const TensorPlan& plan);

/// The checks of planTensor() alone, before a tensor is declared to other ranks.
void checkSpec(const TensorSpec& spec, int worldSize);

}  // namespace hipress

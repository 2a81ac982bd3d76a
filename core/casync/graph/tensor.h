// SPDX-License-Identifier: Apache-2.0
//
// What a rank derives once from a tensor's specification: its codecs, partitions and task graph.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/casync/graph/partition.h"
#include "core/casync/graph/task_graph.h"
#include "core/casync/graph/tensor_spec.h"
#include "core/codec/codec.h"
#include "core/element/reduce.h"
#include "core/matrix/low_rank.h"

namespace hipress {

/// One partition and how it is sent.
struct TensorPartition {
  Partition range;   ///< Of this rank's values.
  Partition output;  ///< Of the result; the same, unless a collective moves blocks.
  bool raw = true;   ///< Sent as it is: no codec, or the codec would not shrink it.
  size_t maxPayloadBytes = 0;
};

/// A tensor that is sent as the product of two factors: the left one has as many elements a vector as the
/// matrix has rows, the right one as many as it has columns.
struct Factoring {
  MatrixShape shape;
  size_t rank = 1;  ///< Vectors of each.
  bool errorFeedback = true;
  bool warmStart = true;
};

struct TensorPlan {
  int rank = 0;
  int worldSize = 1;
  size_t partitionBytes = 0;  ///< Of a partition, about, unless the tensor sets their number.
  std::vector<int> hosts;     ///< Number of each rank's host; empty: all on one.
  uint64_t seed = 0;          ///< Of random numbers.
};

/// Immutable. A tensor that is sent with its group has no partitions and an empty graph; one that is sent as
/// linked tensors has one partition and an empty graph.
class Tensor {
 public:
  /// Checks the specification and builds codecs, partitions and graph. Throws InvalidArgument, Unsupported.
  Tensor(TensorSpec spec, uint32_t id, const TensorPlan& plan);

  const TensorSpec& spec() const { return spec_; }
  uint32_t id() const { return id_; }
  /// `none` when the tensor is not compressed.
  const CodecPointer& codec() const { return codec_; }
  /// Encodes merged values, in messages that codec() decodes. Often the same.
  const CodecPointer& aggregateCodec() const { return aggregateCodec_; }
  const std::vector<TensorPartition>& partitions() const { return partitions_; }
  const TaskGraph& graph() const { return graph_; }

  /// nothing: it is not sent as factors.
  const std::optional<Factoring>& factoring() const { return factoring_; }
  /// Whether ranks agree on statistics and add what its codec encodes (codec/summed_encoding.h).
  bool isSummed() const { return isSummed_; }
  /// Whether two other tensors are sent in its place (agree/linked_specs.h).
  bool isLinked() const { return factoring_.has_value() || isSummed_; }

  Combination combination() const { return combination_; }
  /// Applied to this rank's values: prescale.
  double inputFactor() const { return inputFactor_; }
  /// Prescale where a factor of the result would give another result, as integers are truncated: applied to a
  /// copy of this rank's values before the operation begins.
  double ownFactor() const { return ownFactor_; }
  /// Applied to the merged values: postscale, and 1/N for averages.
  double aggregateFactor() const { return aggregateFactor_; }

  bool compressed() const;   ///< Whether any partition is encoded by a codec.
  bool keepsStates() const;  ///< Whether encoding reads and writes states.
  std::vector<size_t> partitionCounts() const;
  size_t inputBytes() const { return static_cast<size_t>(spec_.count) * elementSize(spec_.dtype); }
  size_t outputBytes() const;

 private:
  struct Planner;

  TensorSpec spec_;
  uint32_t id_ = 0;
  CodecPointer codec_;
  CodecPointer aggregateCodec_;
  std::vector<TensorPartition> partitions_;
  TaskGraph graph_;
  std::optional<Factoring> factoring_;
  bool isSummed_ = false;
  Combination combination_ = Combination::kSum;
  double inputFactor_ = 1.0;
  double ownFactor_ = 1.0;
  double aggregateFactor_ = 1.0;
};

}  // namespace hipress

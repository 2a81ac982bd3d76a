// SPDX-License-Identifier: Apache-2.0
//
// A tensor's codecs, partitions and task graph, which a rank derives once from the specification.
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

/// One partition, and how it travels.
struct TensorPartition {
  Partition range;   ///< In this rank's values.
  Partition output;  ///< In the result; equal to `range`, unless a collective moves blocks.
  bool raw = true;   ///< Without a codec: none is set, or it would not shrink the partition.
  size_t maxPayloadBytes = 0;
  bool instead = false;  ///< Raw although a codec is set.
};

/// The factors of a tensor that travels as their product. A vector of the left factor has as many elements as
/// the matrix has rows, and a vector of the right factor as many as the matrix has columns.
struct Factoring {
  MatrixShape shape;
  size_t rank = 1;  ///< Vectors of each factor.
  bool errorFeedback = true;
  bool warmStart = true;
};

struct TensorPlan {
  int rank = 0;
  int worldSize = 1;
  size_t partitionBytes = 0;  ///< Size of a partition, about, if the tensor sets no number.
  std::vector<int> hosts;     ///< The host number of each rank; empty: all ranks are on one host.
  uint64_t seed = 0;          ///< The seed of random numbers.

  /// The plan among the ranks of a process set, which then have their positions in it as numbers.
  TensorPlan within(const ProcessSet& among) const;
};

/// Immutable. A tensor of a group has no partitions and an empty graph. A tensor that travels as linked
/// tensors has one partition and an empty graph.
class Tensor {
 public:
  /// Checks the specification and builds codecs, partitions and graph. Throws InvalidArgument, Unsupported.
  Tensor(TensorSpec spec, uint32_t id, const TensorPlan& plan);

  const TensorSpec& spec() const { return spec_; }
  /// This rank's handle of the tensor.
  uint32_t id() const { return id_; }
  /// `none` if the tensor is not compressed.
  const CodecPointer& codec() const { return codec_; }
  /// Encodes merged values; codec() decodes its payloads. Often equal to codec().
  const CodecPointer& aggregateCodec() const { return aggregateCodec_; }
  const std::vector<TensorPartition>& partitions() const { return partitions_; }
  const TaskGraph& graph() const { return graph_; }
  /// Number of ranks that synchronise it, and the position of this rank among them. Random numbers depend on
  /// the position, so that a process set has the bits of a job with its ranks alone.
  int ranks() const { return ranks_; }
  int position() const { return position_; }

  /// Empty: the tensor does not travel as factors.
  const std::optional<Factoring>& factoring() const { return factoring_; }
  /// Whether ranks agree on statistics and add what its codec encodes (codec/summed_encoding.h).
  bool isSummed() const { return isSummed_; }
  /// Whether two other tensors are sent in its place (agree/linked_specs.h).
  bool isLinked() const { return factoring_.has_value() || isSummed_; }

  /// Whether a rank's own values travel as integers of 4 bits (element/nibbles.h). Sums travel as they are.
  bool packsOwn() const { return packsOwn_; }

  Combination combination() const { return combination_; }
  /// The factor of this rank's values in an encode or merge: prescale.
  double inputFactor() const { return inputFactor_; }
  /// Prescale, if a factor of the result would give another result, because integers are truncated. The
  /// engine applies it to a copy of this rank's values before the operation begins.
  double ownFactor() const { return ownFactor_; }
  /// The factor of the merged values: postscale, and 1/N for averages.
  double aggregateFactor() const { return aggregateFactor_; }

  bool compressed() const;   ///< Whether a codec encodes any partition.
  bool keepsStates() const;  ///< Whether an encode reads and writes states.
  std::vector<size_t> partitionCounts() const;
  size_t inputBytes() const { return static_cast<size_t>(spec_.count) * elementSize(spec_.dtype); }
  size_t outputBytes() const;

 private:
  struct Planner;

  TensorSpec spec_;
  uint32_t id_ = 0;
  int ranks_ = 1;
  int position_ = 0;
  CodecPointer codec_;
  CodecPointer aggregateCodec_;
  std::vector<TensorPartition> partitions_;
  TaskGraph graph_;
  std::optional<Factoring> factoring_;
  bool isSummed_ = false;
  bool packsOwn_ = false;
  Combination combination_ = Combination::kSum;
  double inputFactor_ = 1.0;
  double ownFactor_ = 1.0;
  double aggregateFactor_ = 1.0;
};

}  // namespace hipress

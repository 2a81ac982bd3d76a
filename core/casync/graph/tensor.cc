// SPDX-License-Identifier: Apache-2.0
#include "core/casync/graph/tensor.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/casync/graph/collectives.h"
#include "core/casync/graph/shares.h"
#include "core/casync/graph/topology.h"
#include "core/codec/generated_codec.h"
#include "core/codec/merged_decoded.h"
#include "core/codec/registry.h"
#include "core/element/nibbles.h"

namespace hipress {
namespace {

Combination combinationOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::kMin:
      return Combination::kMin;
    case Reduction::kMax:
      return Combination::kMax;
    case Reduction::kProduct:
      return Combination::kProduct;
    case Reduction::kAverage:
    case Reduction::kSum:
      break;
  }
  return Combination::kSum;
}

TensorPartition rawPartition(Partition range, Partition output, size_t elementBytes) {
  return {range, output, true, std::max(range.count, output.count) * elementBytes};
}

/// A codec encodes kMostElements at a time.
size_t fewestEncodedPieces(size_t count) {
  constexpr size_t kMost = kMostElements / kPartitionAlignment * kPartitionAlignment;
  return (count + kMost - 1) / kMost;
}

/// In the first step of an allgather or alltoall, the ranks exchange the sizes of their blocks.
TensorSpec withSizes(TensorSpec spec, int worldSize) {
  const std::vector<uint64_t> ones(static_cast<size_t>(worldSize), 1);
  auto* const allgather = std::get_if<AllgatherOptions>(&spec.options);
  auto* const alltoall = std::get_if<AlltoallOptions>(&spec.options);
  if (allgather != nullptr && allgather->received.empty()) {
    *allgather = {ones};
    spec.count = 1;
  } else if (alltoall != nullptr && alltoall->received.empty()) {
    *alltoall = {ones, ones};
    spec.count = ones.size();
  } else {
    return spec;
  }
  spec.dtype = DType::kInt64;
  spec.device = nullptr;
  return spec;
}

}  // namespace

/// Plans partitions and graph for the options of each collective.
struct Tensor::Planner {
  const TensorSpec& spec;
  const TensorPlan& plan;
  Tensor& tensor;

  size_t bytes() const { return elementSize(spec.dtype); }
  size_t ranks() const { return static_cast<size_t>(plan.worldSize); }

  TopologyContext context(int firstRank) const {
    return {plan.rank, plan.worldSize, static_cast<uint16_t>(tensor.partitions_.size()),
            firstRank, plan.hosts,     false};
  }

  /// Cuts the tensor so that its steps overlap. A codec encodes each partition that it shrinks.
  void cut(int partitions) {
    size_t number = partitions > 0
                        ? static_cast<size_t>(partitions)
                        : defaultPartitions(spec.count * bytes(), plan.partitionBytes, plan.worldSize);
    if (tensor.codec_->name() != "none") number = std::max(number, fewestEncodedPieces(spec.count));
    for (const Partition& range : splitElements(spec.count, number)) {
      TensorPartition partition = rawPartition(range, range, bytes());
      if (tensor.codec_->name() != "none") {
        const size_t bound = std::max(tensor.codec_->maxEncodedBytes(range.count),
                                      tensor.aggregateCodec_->maxEncodedBytes(range.count));
        partition.raw = bound >= range.count * bytes();
        if (!partition.raw) partition.maxPayloadBytes = bound;
      }
      tensor.partitions_.push_back(partition);
    }
  }

  void reduce(const ReduceOptions& options) {
    tensor.combination_ = combinationOf(options.reduction);
    const bool linear = isFloatingPoint(spec.dtype) && tensor.combination_ == Combination::kSum;
    (linear ? tensor.inputFactor_ : tensor.ownFactor_) = options.prescale;
    const bool average = options.reduction == Reduction::kAverage;
    tensor.aggregateFactor_ = options.postscale / (average ? static_cast<double>(plan.worldSize) : 1.0);
  }

  /// Whether the tensor travels as factors, because they are enough smaller than the matrix.
  bool factor(const LowRank& lowRank) {
    const MatrixShape shape = matrixShape(spec);
    const size_t rank = std::min({lowRank.rank, shape.rows, shape.columns});
    const auto factors = static_cast<double>(rank * (shape.rows + shape.columns));
    if (rank == 0 || factors * lowRank.minRatio > static_cast<double>(shape.count())) return false;
    tensor.factoring_ = Factoring{shape, rank, lowRank.errorFeedback, lowRank.warmStart};
    const Partition all{0, static_cast<size_t>(spec.count)};
    tensor.partitions_ = {rawPartition(all, all, bytes())};
    return true;
  }

  /// Whether the tensor's levels are summed: where they and the statistics are fewer bytes.
  bool sum() {
    const auto count = static_cast<size_t>(spec.count);
    if (count > kMostElements) {
      throw invalidArgument("tensor '" + spec.name + "' has " + std::to_string(count) +
                            " elements, and codec " + std::string(tensor.codec_->name()) + " adds " +
                            std::to_string(kMostElements) +
                            " at most: choose another codec for this tensor (codec_for), such as int8");
    }
    if (tensor.codec_->maxEncodedBytes(count) >= count * bytes()) return false;
    tensor.isSummed_ = true;
    const Partition all{0, count};
    tensor.partitions_ = {rawPartition(all, all, bytes())};
    return true;
  }

  /// Whether 4 bits hold each value of a rank, and the merge that unpacks them gives the sum.
  bool packsOwn(const AllreduceOptions& options) const {
    const bool small = options.greatest > 0 && options.greatest <= kMostNibble;
    const bool summed =
        options.reduction == Reduction::kSum && options.prescale == 1.0 && options.postscale == 1.0;
    return small && summed && spec.dtype == DType::kInt8 && spec.device == nullptr;
  }

  void operator()(const AllreduceOptions& options) {
    // Without a network in the way, compression would lose precision and gain nothing.
    const bool mayCompress = spec.count * bytes() >= options.minCompressBytes &&
                             crossesNetwork(options.topology, plan.hosts, plan.worldSize);
    if (mayCompress) {
      tensor.codec_ = createCodec(options.codec);
      if (const LowRank* lowRank = tensor.codec_->lowRank()) {
        if (factor(*lowRank)) return reduce(options);
        tensor.codec_ = tensor.aggregateCodec_;
      }
      if (tensor.codec_->summed() != nullptr) {
        if (sum()) {
          reduce(options);
          tensor.inputFactor_ *= static_cast<double>(tensor.codec_->gradientFactor());
          return;
        }
        tensor.codec_ = tensor.aggregateCodec_;
      }
      const CodecPointer forAggregate = tensor.codec_->forAggregate();
      tensor.aggregateCodec_ = forAggregate == nullptr ? tensor.codec_ : forAggregate;
    }
    cut(options.partitions);
    const bool wanted = options.codec != "none";
    for (TensorPartition& partition : tensor.partitions_) partition.instead = wanted && partition.raw;
    reduce(options);
    tensor.packsOwn_ = packsOwn(options);
    // The ranks' gradients have one factor, whether they are encoded or merged as they are.
    if (tensor.compressed()) tensor.inputFactor_ *= static_cast<double>(tensor.codec_->gradientFactor());
    TopologyContext ranks =
        context(firstAggregator(spec.lastingName.empty() ? spec.name : spec.lastingName, plan.worldSize));
    ranks.mergesDecoded = mergesDecoded(*tensor.codec_);
    tensor.graph_ = buildTopology(options.topology, ranks);
  }

  void operator()(const BroadcastOptions& options) {
    cut(options.partitions);
    tensor.graph_ = buildBroadcast(context(positionOf(spec.among, options.root)));
  }

  void operator()(const AllgatherOptions& options) {
    size_t owner = 0;
    for (const Partition& block : behindEachOther(options.received)) {
      const bool own = owner++ == static_cast<size_t>(plan.rank);
      tensor.partitions_.push_back(
          rawPartition(own ? Partition{0, block.count} : Partition{}, block, bytes()));
    }
    tensor.graph_ = buildAllgather(context(0));
  }

  void operator()(const AlltoallOptions& options) {
    const auto received = behindEachOther(options.received);
    const auto sent = behindEachOther(options.sent);
    for (size_t partition = 0; partition < ranks(); ++partition) {
      const auto peer = static_cast<size_t>(alltoallPeer(plan.rank, partition, plan.worldSize));
      tensor.partitions_.push_back(rawPartition(sent[peer], received[peer], bytes()));
    }
    tensor.graph_ = buildAlltoall(context(0));
  }

  void operator()(const ReducescatterOptions& options) {
    const uint64_t rowElements = options.rows == 0 ? 0 : spec.count / options.rows;
    for (const Partition& block : behindEachOther(divideRows(options.rows, rowElements, plan.worldSize))) {
      const bool own = tensor.partitions_.size() == static_cast<size_t>(plan.rank);
      tensor.partitions_.push_back(
          rawPartition(block, own ? Partition{0, block.count} : Partition{}, bytes()));
    }
    reduce(options);
    tensor.graph_ = buildReducescatter(context(0));
  }
};

bool Tensor::compressed() const {
  return std::any_of(partitions_.begin(), partitions_.end(),
                     [](const auto& partition) { return !partition.raw; });
}

bool Tensor::keepsStates() const {
  return (compressed() || isLinked()) && !(codec_->states().empty() && aggregateCodec_->states().empty());
}

std::vector<size_t> Tensor::partitionCounts() const {
  std::vector<size_t> counts;
  for (const auto& partition : partitions_) counts.push_back(partition.range.count);
  return counts;
}

size_t Tensor::outputBytes() const {
  // Only collectives that move blocks have results of another size than the input.
  if (spec_.collective() == Collective::kAllreduce || spec_.collective() == Collective::kBroadcast)
    return inputBytes();
  size_t count = 0;
  for (const auto& partition : partitions_) count += partition.output.count;
  return count * elementSize(spec_.dtype);
}

TensorPlan TensorPlan::within(const ProcessSet& among) const {
  TensorPlan plan = *this;
  plan.rank = positionOf(among, rank);
  plan.worldSize = sizeOf(among, worldSize);
  if (hosts.empty() || among.empty()) return plan;
  plan.hosts.clear();
  for (const int each : among) plan.hosts.push_back(hosts[static_cast<size_t>(each)]);
  return plan;
}

Tensor::Tensor(TensorSpec spec, uint32_t id, const TensorPlan& plan)
    : id_(id),
      ranks_(sizeOf(spec.among, plan.worldSize)),
      position_(positionOf(spec.among, plan.rank)),
      codec_(createCodec("none")),
      aggregateCodec_(codec_) {
  if (spec.group().empty()) {
    spec.check(plan.rank, plan.worldSize);
    const TensorPlan within = plan.within(spec.among);
    spec = withSizes(std::move(spec), ranks_);
    std::visit(Planner{spec, within, *this}, spec.options);
    graph_.nameRanks(spec.among);
  }
  spec_ = std::move(spec);
}

}  // namespace hipress

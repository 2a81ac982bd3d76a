// SPDX-License-Identifier: Apache-2.0
#include "core/casync/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/casync/collectives.h"
#include "core/casync/shares.h"
#include "core/casync/topology.h"
#include "core/codec/registry.h"
#include "core/error.h"

namespace hipress {
namespace {

size_t partitionCount(const TensorSpec& spec, const TensorPlan& plan) {
  if (spec.partitions > 0) return static_cast<size_t>(spec.partitions);
  const size_t bytes = static_cast<size_t>(spec.count) * elementSize(spec.dtype);
  return defaultPartitions(bytes, plan.partitionBytes, plan.worldSize);
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

bool reduces(Collective collective) {
  return collective == Collective::kAllreduce || collective == Collective::kReducescatter;
}

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

/// The first step of an allgather or alltoall, in which ranks tell each other how much they have.
TensorSpec sizesOf(TensorSpec spec, int worldSize) {
  const std::vector<uint64_t> ones(static_cast<size_t>(worldSize), 1);
  spec.dtype = DType::kInt64;
  spec.device = nullptr;
  spec.received = ones;
  if (spec.collective == Collective::kAlltoall) spec.sent = ones;
  spec.count = spec.collective == Collective::kAlltoall ? ones.size() : 1;
  return spec;
}

TensorPartition rawPartition(Partition range, Partition output, size_t elementBytes) {
  return {range, output, true, std::max(range.count, output.count) * elementBytes};
}

/// The partitions of the collectives that move blocks.
std::vector<TensorPartition> blockPartitions(const TensorSpec& spec, const TensorPlan& plan) {
  const auto world = static_cast<size_t>(plan.worldSize);
  const auto rank = static_cast<size_t>(plan.rank);
  const size_t bytes = elementSize(spec.dtype);
  const Partition none{};
  std::vector<TensorPartition> partitions;
  if (spec.collective == Collective::kReducescatter) {
    const uint64_t rowElements = spec.rows == 0 ? 0 : spec.count / spec.rows;
    for (const Partition& block : behindEachOther(divideRows(spec.rows, rowElements, plan.worldSize))) {
      const bool own = partitions.size() == rank;
      partitions.push_back(rawPartition(block, own ? Partition{0, block.count} : none, bytes));
    }
    return partitions;
  }
  const auto received = behindEachOther(spec.received);
  if (spec.collective == Collective::kAllgather) {
    for (size_t owner = 0; owner < world; ++owner) {
      const Partition range = owner == rank ? Partition{0, received[owner].count} : none;
      partitions.push_back(rawPartition(range, received[owner], bytes));
    }
    return partitions;
  }
  const auto sent = behindEachOther(spec.sent);
  for (size_t partition = 0; partition < world; ++partition) {
    const auto peer = static_cast<size_t>(alltoallPeer(plan.rank, partition, plan.worldSize));
    partitions.push_back(rawPartition(sent[peer], received[peer], bytes));
  }
  return partitions;
}

TaskGraph graphOf(const TensorSpec& spec, const TopologyContext& context) {
  switch (spec.collective) {
    case Collective::kAllreduce:
      break;
    case Collective::kBroadcast:
      return buildBroadcast(context);
    case Collective::kAllgather:
      return buildAllgather(context);
    case Collective::kAlltoall:
      return buildAlltoall(context);
    case Collective::kReducescatter:
      return buildReducescatter(context);
  }
  return buildTopology(spec.topology, context);
}

}  // namespace

std::string_view collectiveName(Collective collective) {
  constexpr std::string_view names[] = {"allreduce", "broadcast", "allgather", "alltoall", "reducescatter"};
  return names[static_cast<size_t>(collective)];
}

std::string_view reductionName(Reduction reduction) {
  constexpr std::string_view names[] = {"average", "sum", "min", "max", "product"};
  return names[static_cast<size_t>(reduction)];
}

std::string TensorSpec::describe() const {
  std::string text(collectiveName(collective));
  if (reduces(collective)) (text += " ") += reductionName(reduction);
  ((text += " ") += dtypeName(dtype)) += shape;
  if (collective == Collective::kBroadcast) text += " from rank " + std::to_string(root);
  if (!reduces(collective)) return text;
  if (collective == Collective::kAllreduce) {
    text += " codec " + (codec == "none" ? codec : createCodec(codec)->signature()) + " topology " + topology;
    if (partitions > 0) text += " partitions " + std::to_string(partitions);
    if (!group.empty()) text += " in group " + group;
    if (codec != "none") text += " compressed from " + std::to_string(minCompressBytes) + " bytes";
  }
  if (prescale != 1.0) text += " prescale " + number(prescale);
  if (postscale != 1.0) text += " postscale " + number(postscale);
  return text;
}

bool Tensor::compressed() const {
  return std::any_of(partitions.begin(), partitions.end(),
                     [](const auto& partition) { return !partition.raw; });
}

bool Tensor::keepsStates() const {
  return compressed() && !(codec->states().empty() && aggregateCodec->states().empty());
}

std::vector<size_t> Tensor::partitionCounts() const {
  std::vector<size_t> counts;
  for (const auto& partition : partitions) counts.push_back(partition.range.count);
  return counts;
}

size_t Tensor::outputBytes() const {
  const bool blocks = spec.collective != Collective::kAllreduce && spec.collective != Collective::kBroadcast;
  if (!blocks) return inputBytes();
  size_t count = 0;
  for (const auto& partition : partitions) count += partition.output.count;
  return count * elementSize(spec.dtype);
}

namespace {

void checkReduction(const TensorSpec& spec, const std::string& where) {
  if (spec.dtype == DType::kBool && spec.reduction == Reduction::kAverage) {
    throw unsupported(where + "bool tensors have no average; use op=Sum, which is a logical or");
  }
  if (!std::isfinite(spec.prescale) || !std::isfinite(spec.postscale)) {
    throw invalidArgument(where + "prescale and postscale factors must be finite");
  }
  if (combinationOf(spec.reduction) == Combination::kSum) return;
  const std::string op(reductionName(spec.reduction));
  if (spec.prescale != 1.0)
    throw invalidArgument(where + "prescale goes with op=Sum and op=Average, not " + op);
  if (spec.codec != "none") {
    throw unsupported(where + "codecs compress what is added up: use codec \"none\" for the " + op);
  }
  if (spec.device != nullptr) {
    throw unsupported(where + "the " + op + " is computed on the host: hand over a copy there");
  }
}

}  // namespace

void checkSpec(const TensorSpec& spec, int worldSize) {
  const auto where = "tensor '" + spec.name + "': ";
  if (static_cast<int>(spec.dtype) >= kDTypeCount) throw unsupported(where + "unknown element type");
  if (spec.collective == Collective::kBroadcast && (spec.root < 0 || spec.root >= worldSize)) {
    throw invalidArgument(where + "the root rank " + std::to_string(spec.root) + " is not in 0.." +
                          std::to_string(worldSize - 1));
  }
  if (spec.collective == Collective::kReducescatter && spec.rows > 0 && spec.count % spec.rows != 0) {
    throw invalidArgument(where + std::to_string(spec.count) + " elements are not " +
                          std::to_string(spec.rows) + " rows");
  }
  if (static_cast<size_t>(worldSize) > kMaxPartitions && spec.collective != Collective::kAllreduce &&
      spec.collective != Collective::kBroadcast) {
    throw unsupported(where + std::string(collectiveName(spec.collective)) + " takes " +
                      std::to_string(kMaxPartitions) + " ranks at most");
  }
  if (reduces(spec.collective)) checkReduction(spec, where);
  if (spec.collective != Collective::kAllreduce) return;
  checkTopologyName(spec.topology);
  const CodecPointer codec = createCodec(spec.codec);
  if (codec->name() != "none" && !isFloatingPoint(spec.dtype)) {
    throw unsupported(where + "codec " + std::string(codec->name()) +
                      " compresses floating-point tensors, not " + std::string(dtypeName(spec.dtype)) +
                      "; use codec \"none\" for it");
  }
  if (spec.partitions < 0 || static_cast<size_t>(spec.partitions) > kMaxPartitions) {
    throw invalidArgument(where + "partitions must be in 0.." + std::to_string(kMaxPartitions) + ", not " +
                          std::to_string(spec.partitions));
  }
}

namespace {

/// Of a tensor that is cut for overlap's sake and, if it is reduced, may be compressed.
std::vector<TensorPartition> cutPartitions(const TensorSpec& spec, const Tensor& tensor,
                                           const TensorPlan& plan) {
  const size_t size = elementSize(spec.dtype);
  std::vector<TensorPartition> partitions;
  for (const Partition& range : splitElements(spec.count, partitionCount(spec, plan))) {
    TensorPartition partition = rawPartition(range, range, size);
    if (tensor.codec->name() != "none") {
      const size_t bound = std::max(tensor.codec->maxEncodedBytes(range.count),
                                    tensor.aggregateCodec->maxEncodedBytes(range.count));
      partition.raw = bound >= range.count * size;
      if (!partition.raw) partition.maxPayloadBytes = bound;
    }
    partitions.push_back(partition);
  }
  return partitions;
}

}  // namespace

std::shared_ptr<const Tensor> planTensor(TensorSpec spec, uint32_t id, const TensorPlan& plan) {
  checkSpec(spec, plan.worldSize);
  const bool gathers = spec.collective == Collective::kAllgather || spec.collective == Collective::kAlltoall;
  if (gathers && spec.received.empty()) spec = sizesOf(std::move(spec), plan.worldSize);
  auto tensor = std::make_shared<Tensor>();
  const bool allreduce = spec.collective == Collective::kAllreduce;
  const size_t rawBytes = static_cast<size_t>(spec.count) * elementSize(spec.dtype);
  // Where nothing crosses a network, nothing is worth losing precision for.
  const bool mayCompress = allreduce && rawBytes >= spec.minCompressBytes &&
                           crossesNetwork(spec.topology, plan.hosts, plan.worldSize);
  tensor->codec = createCodec(mayCompress ? spec.codec : "none");
  tensor->aggregateCodec = tensor->codec->forAggregate();
  if (tensor->aggregateCodec == nullptr) tensor->aggregateCodec = tensor->codec;
  const bool cut = allreduce || spec.collective == Collective::kBroadcast;
  tensor->partitions = cut ? cutPartitions(spec, *tensor, plan) : blockPartitions(spec, plan);

  TopologyContext context;
  context.rank = plan.rank;
  context.worldSize = plan.worldSize;
  context.hosts = plan.hosts;
  context.partitions = static_cast<uint16_t>(tensor->partitions.size());
  context.firstRank = allreduce ? firstAggregator(spec.name, plan.worldSize) : spec.root;
  tensor->graph = graphOf(spec, context);
  if (reduces(spec.collective)) {
    tensor->combination = combinationOf(spec.reduction);
    tensor->inputFactor = spec.prescale;
    tensor->aggregateFactor =
        spec.postscale / (spec.reduction == Reduction::kAverage ? static_cast<double>(plan.worldSize) : 1.0);
  }
  tensor->spec = std::move(spec);
  tensor->id = id;
  return tensor;
}

}  // namespace hipress

// SPDX-License-Identifier: Apache-2.0
#include "core/casync/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/casync/topology.h"
#include "core/codec/registry.h"
#include "core/error.h"

namespace hipress {
namespace {

/// Where partition 0 of a tensor is aggregated: names spread small tensors, of one partition, over the ranks.
/// FNV-1a.
int firstAggregator(const std::string& name, int worldSize) {
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return static_cast<int>(hash % static_cast<uint32_t>(worldSize));
}

size_t partitionCount(const TensorSpec& spec, const TensorPlan& plan) {
  if (spec.partitions > 0) return static_cast<size_t>(spec.partitions);
  const size_t bytes = static_cast<size_t>(spec.count) * elementSize(spec.dtype);
  const auto world = static_cast<size_t>(plan.worldSize);
  // Below this a partition's messages cost more than sharing its aggregation out saves.
  constexpr size_t kWorthSharing = size_t{128} << 10;
  if (bytes < kWorthSharing) return 1;
  if (bytes <= plan.partitionBytes * world)
    return std::min(world, (bytes + kWorthSharing - 1) / kWorthSharing);
  const size_t pieces = (bytes + plan.partitionBytes - 1) / plan.partitionBytes;
  // A multiple of the world size: every rank aggregates the same share.
  return std::min(kMaxPartitions / world * world, (pieces + world - 1) / world * world);
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

}  // namespace

std::string TensorSpec::describe() const {
  std::string text(dtypeName(dtype));
  text += shape;
  if (collective == Collective::kBroadcast) return "broadcast " + text + " from rank " + std::to_string(root);
  text = std::string("allreduce ") + (reduction == Reduction::kAverage ? "average " : "sum ") + text +
         " codec " + (codec == "none" ? codec : createCodec(codec)->signature()) + " topology " + topology;
  if (partitions > 0) text += " partitions " + std::to_string(partitions);
  if (codec != "none") text += " compressed from " + std::to_string(minCompressBytes) + " bytes";
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

void checkSpec(const TensorSpec& spec, int worldSize) {
  const auto where = "tensor '" + spec.name + "': ";
  if (static_cast<int>(spec.dtype) >= kDTypeCount) throw unsupported(where + "unknown element type");
  if (spec.collective == Collective::kBroadcast) {
    if (spec.root >= 0 && spec.root < worldSize) return;
    throw invalidArgument(where + "the root rank " + std::to_string(spec.root) + " is not in 0.." +
                          std::to_string(worldSize - 1));
  }
  checkTopologyName(spec.topology);
  const CodecPointer codec = createCodec(spec.codec);
  if (codec->name() != "none" && !isFloatingPoint(spec.dtype)) {
    throw unsupported(where + "codec " + std::string(codec->name()) +
                      " compresses floating-point tensors, not " + std::string(dtypeName(spec.dtype)) +
                      "; use codec \"none\" for it");
  }
  if (spec.dtype == DType::kBool && spec.reduction == Reduction::kAverage) {
    throw unsupported(where + "bool tensors have no average; use op=Sum, which is a logical or");
  }
  if (spec.partitions < 0 || static_cast<size_t>(spec.partitions) > kMaxPartitions) {
    throw invalidArgument(where + "partitions must be in 0.." + std::to_string(kMaxPartitions) + ", not " +
                          std::to_string(spec.partitions));
  }
  if (!std::isfinite(spec.prescale) || !std::isfinite(spec.postscale)) {
    throw invalidArgument(where + "prescale and postscale factors must be finite");
  }
}

std::shared_ptr<const Tensor> planTensor(TensorSpec spec, uint32_t id, const TensorPlan& plan) {
  checkSpec(spec, plan.worldSize);
  auto tensor = std::make_shared<Tensor>();
  const bool broadcast = spec.collective == Collective::kBroadcast;
  const size_t size = elementSize(spec.dtype);
  const size_t rawBytes = static_cast<size_t>(spec.count) * size;
  // Where nothing crosses a network, nothing is worth losing precision for.
  const bool mayCompress = !broadcast && rawBytes >= spec.minCompressBytes &&
                           crossesNetwork(spec.topology, plan.hosts, plan.worldSize);
  tensor->codec = createCodec(mayCompress ? spec.codec : "none");
  tensor->aggregateCodec = tensor->codec->forAggregate();
  if (tensor->aggregateCodec == nullptr) tensor->aggregateCodec = tensor->codec;
  const bool codecShrinks = tensor->codec->name() != "none";

  for (const Partition& range : splitElements(spec.count, partitionCount(spec, plan))) {
    TensorPartition partition;
    partition.range = range;
    partition.maxPayloadBytes = range.count * size;
    if (codecShrinks) {
      const size_t bound = std::max(tensor->codec->maxEncodedBytes(range.count),
                                    tensor->aggregateCodec->maxEncodedBytes(range.count));
      partition.raw = bound >= range.count * size;
      if (!partition.raw) partition.maxPayloadBytes = bound;
    }
    tensor->partitions.push_back(partition);
  }

  TopologyContext context;
  context.rank = plan.rank;
  context.worldSize = plan.worldSize;
  context.hosts = plan.hosts;
  context.partitions = static_cast<uint16_t>(tensor->partitions.size());
  context.firstRank = broadcast ? spec.root : firstAggregator(spec.name, plan.worldSize);
  tensor->graph = broadcast ? buildBroadcast(context) : buildTopology(spec.topology, context);
  if (!broadcast) {
    tensor->inputFactor = spec.prescale;
    tensor->aggregateFactor =
        spec.postscale / (spec.reduction == Reduction::kAverage ? static_cast<double>(plan.worldSize) : 1.0);
  }
  tensor->spec = std::move(spec);
  tensor->id = id;
  return tensor;
}

}  // namespace hipress

// SPDX-License-Identifier: Apache-2.0
#include "core/casync/graph/tensor_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "core/base/error.h"
#include "core/casync/graph/partition.h"
#include "core/casync/graph/topology.h"
#include "core/codec/codec.h"
#include "core/codec/merged_decoded.h"
#include "core/codec/registry.h"
#include "core/codec/summed_encoding.h"

namespace hipress {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

void checkReduction(const TensorSpec& spec, const ReduceOptions& options, const std::string& where) {
  if (spec.dtype == DType::kBool && options.reduction == Reduction::kAverage) {
    throw unsupported(where + "bool tensors have no average; use op=Sum, which is a logical or");
  }
  if (!std::isfinite(options.prescale) || !std::isfinite(options.postscale)) {
    throw invalidArgument(where + "prescale and postscale factors must be finite");
  }
  if (spec.dtype == DType::kBool && (options.prescale != 1.0 || options.postscale != 1.0)) {
    throw unsupported(where + "bool tensors take no prescale or postscale factor; convert them first");
  }
  if (options.reduction == Reduction::kAverage || options.reduction == Reduction::kSum) return;
  const std::string op(reductionName(options.reduction));
  if (spec.allreduce() != nullptr && spec.allreduce()->codec != "none") {
    throw unsupported(where + "codecs compress values that are added up: use codec \"none\" for the " + op);
  }
}

/// Of codecs that send two linked tensors in place of one.
void checkLinked(const TensorSpec& spec, const AllreduceOptions& options, const Codec& codec,
                 const std::string& where) {
  const std::string name(codec.name());
  if (spec.device != nullptr) {
    throw unsupported(where + "codec " + name +
                      " computes on the host, and the tensor is on a device; use another codec for it");
  }
  if (!options.group.empty()) {
    throw unsupported(where + "codec " + name + " sends each tensor alone, and the plan has it in group '" +
                      options.group + "'; plan it alone, or use another codec for it");
  }
}

/// The tensors of a group follow each other without gaps, so a block of elements may belong to two of them.
void checkWholeStates(const AllreduceOptions& options, const Codec& codec, const std::string& where) {
  for (const CodecState& state : codec.states()) {
    if (state.block == 1) continue;
    throw unsupported(where + "codec " + std::string(codec.name()) + " keeps one value of '" + state.name +
                      "' for each " + std::to_string(state.block) +
                      " elements, and the plan has the tensor in "
                      "group '" +
                      options.group + "'; plan it alone, or use another codec for it");
  }
}

void checkSum(const Codec& codec, int worldSize, const std::string& where) {
  const int64_t most = codec.summed()->mostLevel();
  if (most < 1 || most > 127) {
    throw invalidArgument(where + "codec " + codec.signature() + " adds levels of up to " +
                          std::to_string(most) + "; choose options with which this is 1 to 127");
  }
  const int64_t ranks = codec.summed()->mostRanks();
  if (worldSize <= ranks) return;
  throw invalidArgument(where + "codec " + codec.signature() + " adds levels of up to " +
                        std::to_string(most) + " in 8 bits, which holds the sum of " + std::to_string(ranks) +
                        " ranks at most, and there are " + std::to_string(worldSize) +
                        "; choose options with which levels are up to " + std::to_string(127 / worldSize) +
                        ", or another codec");
}

/// Of codecs of which every contribution counts as decoded: a topology that encodes partial sums, or adds
/// elements without a codec on a host, would give a message of some ranks the weight of one rank.
void checkMergesDecoded(const AllreduceOptions& options, const Codec& codec, const std::string& where) {
  if (isDirect(options.topology)) return;
  throw unsupported(where + "codec " + std::string(codec.name()) +
                    " merges every rank's values as decoded from its message, and topology " +
                    options.topology + " sends sums of some ranks; use ps or allgather, or another codec");
}

void checkAllreduce(const TensorSpec& spec, const AllreduceOptions& options, int worldSize,
                    const std::string& where) {
  checkTopologyName(options.topology);
  if (options.partitions < 0 || static_cast<size_t>(options.partitions) > kMaxPartitions) {
    throw invalidArgument(where + "partitions must be in 0.." + std::to_string(kMaxPartitions) + ", not " +
                          std::to_string(options.partitions));
  }
  if (options.greatest != 0 && (spec.dtype != DType::kInt8 || options.greatest < 0)) {
    throw invalidArgument(where + "a greatest magnitude is positive, and of int8 tensors; it is " +
                          std::to_string(options.greatest) + " for " + std::string(dtypeName(spec.dtype)) +
                          ": leave it 0");
  }
  const CodecPointer codec = createCodec(options.codec);
  if (codec->name() != "none" && !isFloatingPoint(spec.dtype)) {
    throw unsupported(where + "codec " + std::string(codec->name()) +
                      " compresses floating-point tensors, not " + std::string(dtypeName(spec.dtype)) +
                      "; use codec \"none\" for it");
  }
  if (codec->lowRank() != nullptr || codec->summed() != nullptr) checkLinked(spec, options, *codec, where);
  if (!options.group.empty()) checkWholeStates(options, *codec, where);
  if (codec->lowRank() != nullptr) {
    matrixShape(spec);
    return;
  }
  if (codec->summed() != nullptr) return checkSum(*codec, worldSize, where);
  if (mergesDecoded(*codec)) checkMergesDecoded(options, *codec, where);
  // A codec whose bound is never below the values would be left out of every message silently.
  const size_t many = size_t{1} << 20;
  if (codec->maxEncodedBytes(many) > many * sizeof(float)) {
    throw invalidArgument(where + "codec " + codec->signature() + " may need " +
                          std::to_string(codec->maxEncodedBytes(many)) + " bytes for " +
                          std::to_string(many) +
                          " values, more than the values themselves, so that it would never be used; choose "
                          "options with which it sends fewer, or cut its filter's result with take()");
  }
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

const ReduceOptions* TensorSpec::reduce() const {
  if (allreduce() != nullptr) return allreduce();
  return std::get_if<ReducescatterOptions>(&options);
}

bool TensorSpec::trimmed() const {
  const auto* gathered = std::get_if<AllgatherOptions>(&options);
  return gathered != nullptr && gathered->trimmed;
}

const std::string& TensorSpec::group() const {
  static const std::string none;
  return allreduce() == nullptr ? none : allreduce()->group;
}

std::string TensorSpec::describe() const {
  std::string text(collectiveName(collective()));
  if (reduce() != nullptr) (text += " ") += reductionName(reduce()->reduction);
  ((text += " ") += dtypeName(dtype)) += shape;
  if (!among.empty()) text += " among " + textOf(among);
  if (const auto* broadcast = std::get_if<BroadcastOptions>(&options))
    text += " from rank " + std::to_string(broadcast->root);
  if (trimmed()) text += " without the zeros at the end";
  if (const AllreduceOptions* how = allreduce()) {
    text += " codec " + (how->codec == "none" ? how->codec : createCodec(how->codec)->signature()) +
            " topology " + how->topology;
    if (how->partitions > 0) text += " partitions " + std::to_string(how->partitions);
    if (!how->group.empty()) text += " in group " + how->group;
    if (how->greatest > 0) text += " of magnitudes up to " + std::to_string(how->greatest);
    if (how->codec != "none") text += " compressed from " + std::to_string(how->minCompressBytes) + " bytes";
  }
  if (reduce() != nullptr && reduce()->prescale != 1.0) text += " prescale " + number(reduce()->prescale);
  if (reduce() != nullptr && reduce()->postscale != 1.0) text += " postscale " + number(reduce()->postscale);
  return text;
}

void TensorSpec::check(int rank, int worldSize) const {
  const auto where = "tensor '" + name + "': ";
  try {
    checkProcessSet(among, rank, worldSize);
  } catch (const Error& error) {
    throw Error(error.kind(), where + error.what());
  }
  const int ranks = sizeOf(among, worldSize);
  if (static_cast<int>(dtype) >= kDTypeCount) throw unsupported(where + "unknown element type");
  const auto* broadcast = std::get_if<BroadcastOptions>(&options);
  if (broadcast != nullptr && (broadcast->root < 0 || broadcast->root >= worldSize)) {
    throw invalidArgument(where + "the root rank " + std::to_string(broadcast->root) + " is not in 0.." +
                          std::to_string(worldSize - 1));
  }
  if (broadcast != nullptr && positionOf(among, broadcast->root) < 0) {
    throw invalidArgument(where + "the root rank " + std::to_string(broadcast->root) +
                          " is not in the process set of " + textOf(among));
  }
  const auto* scatter = std::get_if<ReducescatterOptions>(&options);
  if (scatter != nullptr && scatter->rows > 0 && count % scatter->rows != 0) {
    throw invalidArgument(where + std::to_string(count) + " elements are not " +
                          std::to_string(scatter->rows) + " rows");
  }
  const bool movesBlocks = allreduce() == nullptr && broadcast == nullptr;
  if (movesBlocks && static_cast<size_t>(ranks) > kMaxPartitions) {
    throw unsupported(where + std::string(collectiveName(collective())) + " takes " +
                      std::to_string(kMaxPartitions) + " ranks at most");
  }
  if (trimmed() && (dtype != DType::kUInt8 || device != nullptr)) {
    throw unsupported(where + "only bytes on the host travel without the zeros at the end of a block");
  }
  if (reduce() != nullptr) checkReduction(*this, *reduce(), where);
  if (allreduce() != nullptr) checkAllreduce(*this, *allreduce(), ranks, where);
}

MatrixShape matrixShape(const TensorSpec& spec) {
  std::vector<size_t> dimensions;
  for (size_t at = 0; at < spec.shape.size() && spec.shape[at] != ']';) {
    size_t digits = at;
    size_t value = 0;
    while (digits < spec.shape.size() && spec.shape[digits] >= '0' && spec.shape[digits] <= '9')
      value = 10 * value + static_cast<size_t>(spec.shape[digits++] - '0');
    if (digits > at) dimensions.push_back(value);
    at = std::max(digits, at + 1);
  }
  size_t count = 1;
  for (const size_t dimension : dimensions) count *= dimension;
  if (count != spec.count) {
    throw invalidArgument("tensor '" + spec.name + "': codec powersgd needs the shape, and " +
                          (spec.shape.empty() ? "it has none" : spec.shape + " is not that") + " of " +
                          std::to_string(spec.count) + " elements");
  }
  if (dimensions.size() < 2 || count == 0) return {1, count};
  return {dimensions.front(), count / dimensions.front()};
}

}  // namespace hipress

// SPDX-License-Identifier: Apache-2.0
//
// The start of a step: tensors, planned like the engine's, threads, and the times at which backward releases
// gradients.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/casync/graph/partition.h"
#include "core/casync/graph/shares.h"
#include "core/casync/graph/topology.h"
#include "core/simulation/step_simulation.h"

namespace hipress {
namespace {

size_t partitionsOf(const GradientDescription& gradient, const StepDescription& step) {
  const size_t bytes = static_cast<size_t>(gradient.elements) * static_cast<size_t>(gradient.elementBytes);
  const size_t wanted = gradient.partitions > 0 ? static_cast<size_t>(gradient.partitions)
                                                : defaultPartitions(bytes, step.settings.partitionBytes,
                                                                    static_cast<int>(step.cluster.world()));
  return splitElements(static_cast<size_t>(gradient.elements), wanted).size();
}

}  // namespace

StepSimulation::StepSimulation(const StepDescription& description)
    : description_(description),
      symmetric_(description.symmetric),
      seen_(description.symmetric ? 1 : static_cast<uint32_t>(description.cluster.world())),
      threadsPerRank_(2 + static_cast<uint32_t>(std::max(description.cluster.computeThreads, 1))) {
  check();
  if (symmetric_) grid_ = std::make_unique<RankGrid>(description.cluster.hosts);
  network_ =
      std::make_unique<Network>(description.cluster, symmetric_, symmetric_ ? grid_->perHost() : 1, events_);
  const EngineSettings& settings = description.settings;
  for (uint32_t number = 0; number < network_->connections(); ++number) {
    const BundleOptions bundle = bundlesOf(settings.bundle, network_->crossesNetwork(number));
    connections_.push_back({LinkQueue(settings.windowBytes, bundle), {}});
  }
  addThreads();
  addTensors();
  addReleases();
}

void StepSimulation::check() const {
  const ClusterDescription& cluster = description_.cluster;
  const auto isIndex = [](const std::vector<int>& numbers, size_t count) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [count](int number) { return number >= 0 && static_cast<size_t>(number) < count; });
  };
  if (cluster.hosts.empty()) throw invalidArgument("the simulated cluster has no ranks");
  if (!isIndex(cluster.hosts, cluster.machines.size()) || !isIndex(cluster.machines, cluster.cores.size()))
    throw invalidArgument("a simulated rank's host, or a host's machine, is not described");
  if (std::any_of(cluster.cores.begin(), cluster.cores.end(), [](int cores) { return cores < 1; }))
    throw invalidArgument("a simulated machine has no cores");
  const auto isWork = [this](const WholeWork& work) {
    return work.costs < static_cast<int>(description_.computations.size());
  };
  for (size_t number = 0; number < description_.gradients.size(); ++number) {
    const GradientDescription& gradient = description_.gradients[number];
    const std::string where = "gradient '" + gradient.name + "': ";
    checkTopologyName(gradient.topology);
    if (gradient.codec >= static_cast<int>(description_.codecs.size()))
      throw invalidArgument(where + "the costs of its codec are missing");
    if (gradient.codec >= 0 && description_.codecs[static_cast<size_t>(gradient.codec)].mergesDecoded &&
        !isDirect(gradient.topology))
      throw invalidArgument(where + "its codec merges every contribution as decoded, and topology " +
                            gradient.topology + " sends sums of some ranks");
    if (!isWork(gradient.before) || !isWork(gradient.behind))
      throw invalidArgument(where + "the costs of its computation are missing");
    if (gradient.after >= static_cast<int>(number))
      throw invalidArgument(where + "the gradient that releases it must be described before it");
    if (gradient.messageTimes <= 0) throw invalidArgument(where + "its messages take no time");
    if (gradient.members < 1) throw invalidArgument(where + "it stands for no tensor");
    if (gradient.partitions < 0 || gradient.partitions > static_cast<int>(kMaxPartitions))
      throw invalidArgument(where + "partitions must be in 0.." + std::to_string(kMaxPartitions));
  }
}

const std::vector<RankGraphPointer>& StepSimulation::graphs(const std::string& topology, size_t partitions,
                                                            int firstRank, bool mergesDecoded) {
  // One graph of as many partitions as ranks stands for any number of partitions.
  const GraphKey key = symmetric_ ? GraphKey{topology, 0, 0, mergesDecoded}
                                  : GraphKey{topology, partitions, firstRank, mergesDecoded};
  const auto found = graphs_.find(key);
  if (found != graphs_.end()) return found->second;
  const auto& hosts = description_.cluster.hosts;
  auto made = symmetric_
                  ? std::vector<RankGraphPointer>{representativeGraph(topology, hosts, *grid_, mergesDecoded)}
                  : graphsOfAll(topology, partitions, firstRank, hosts, mergesDecoded);
  return graphs_.emplace(key, std::move(made)).first->second;
}

void StepSimulation::addTensors() {
  const int world = static_cast<int>(description_.cluster.world());
  tensors_.resize(description_.gradients.size());
  outcome_.gradients.resize(tensors_.size());
  for (uint32_t number = 0; number < tensors_.size(); ++number) {
    const GradientDescription& gradient = description_.gradients[number];
    addTensor(number, partitionsOf(gradient, description_), firstAggregator(gradient.name, world));
  }
  if (symmetric_) giveShares();
}

void StepSimulation::addTensor(uint32_t number, size_t partitions, int firstRank) {
  const GradientDescription& gradient = description_.gradients[number];
  const auto& hosts = description_.cluster.hosts;
  Tensor& tensor = tensors_[number];
  tensor.elements = static_cast<double>(gradient.elements) / static_cast<double>(partitions);
  tensor.partitionBytes = tensor.elements * gradient.elementBytes;
  tensor.codecBytes = tensor.elements * sizeof(float);
  tensor.encodedBytes = tensor.partitionBytes;
  if (gradient.codec >= 0 && crossesNetwork(gradient.topology, hosts, static_cast<int>(hosts.size()))) {
    tensor.codec = &description_.codecs[static_cast<size_t>(gradient.codec)];
    const double encoded = tensor.codec->encodedBytes.at(tensor.codecBytes);
    tensor.raw = encoded >= tensor.partitionBytes;
    if (!tensor.raw) tensor.encodedBytes = encoded;
  }
  tensor.packsOwn = gradient.packsOwn && tensor.raw;
  tensor.ownBytes = tensor.encodedBytes;
  // Partitions begin at even numbers, so only the last one can have half a byte that nothing uses.
  if (tensor.packsOwn)
    tensor.ownBytes = static_cast<double>((gradient.elements + 1) / 2) / static_cast<double>(partitions);
  const bool mergesDecoded = !tensor.raw && tensor.codec->mergesDecoded;
  const auto& graphs = this->graphs(gradient.topology, partitions, firstRank, mergesDecoded);
  const size_t inGraph = symmetric_ && hasShares(gradient.topology) ? hosts.size() : 1;
  tensor.firstInstance = static_cast<uint32_t>(instances_.size());
  tensor.instances = static_cast<uint32_t>(symmetric_ ? (partitions + inGraph - 1) / inGraph : graphs.size());
  tensor.unfinishedInstances = symmetric_ ? tensor.instances : 1;
  tensor.unfinished = seen_;
  if (gradient.after >= 0) tensors_[static_cast<size_t>(gradient.after)].followers.push_back(number);
  for (uint32_t index = 0; index < tensor.instances; ++index) {
    Instance instance;
    instance.graph = graphs[symmetric_ ? 0 : index].get();
    instance.tensor = number;
    instance.rank = symmetric_ ? 0 : index;
    instance.unfinished = static_cast<uint32_t>(instance.graph->size());
    instance.firstPending = pending_.size();
    for (size_t task = 0; task < instance.graph->size(); ++task) {
      const SimulatedTask& described = instance.graph->tasks[task];
      // A receive waits for its message, and for the submission of its tensor.
      pending_.push_back(described.primitive == Primitive::kRecv ? 2 : described.dependencies);
    }
    instances_.push_back(instance);
  }
}

/// Rank 0 plays the rank with the most bytes of the partitions beyond a multiple of the world size.
void StepSimulation::giveShares() {
  const size_t world = description_.cluster.world();
  std::vector<double> bytes(world, 0.0);
  std::vector<std::vector<size_t>> extra(
      tensors_.size());  // owners of the partitions beyond a multiple of the world size
  for (size_t number = 0; number < tensors_.size(); ++number) {
    const GradientDescription& gradient = description_.gradients[number];
    if (!hasShares(gradient.topology)) continue;
    const auto first = static_cast<size_t>(firstAggregator(gradient.name, static_cast<int>(world)));
    const bool hierarchical = isHierarchical(gradient.topology);
    const size_t rest = partitionsOf(gradient, description_) % world;
    for (size_t partition = 0; partition < rest; ++partition) {
      const auto owner = static_cast<size_t>(grid_->owner(hierarchical, first + partition));
      extra[number].push_back(owner);
      bytes[owner] += tensors_[number].encodedBytes;
    }
  }
  const auto busiest = static_cast<size_t>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
  for (size_t number = 0; number < tensors_.size(); ++number) {
    if (extra[number].empty()) continue;
    Tensor& tensor = tensors_[number];
    const double whole = tensor.instances - 1.0;
    const auto own = static_cast<double>(std::count(extra[number].begin(), extra[number].end(), busiest));
    const auto others = static_cast<double>(extra[number].size()) - own;
    tensor.ownShare = (whole + own) / tensor.instances;
    tensor.otherShare =
        world == 1 ? 1.0 : (whole + others / static_cast<double>(world - 1)) / tensor.instances;
  }
}

void StepSimulation::addThreads() {
  const ClusterDescription& cluster = description_.cluster;
  threads_.resize(static_cast<size_t>(seen_) * threadsPerRank_);
  for (uint32_t index = 0; index < threads_.size(); ++index) {
    threads_[index].rank = index / threadsPerRank_;
    threads_[index].isLane = index % threadsPerRank_ >= 2;
  }
  queued_.resize(seen_);
  outcome_.ranks.resize(seen_);
  std::vector<int> ranksOf(cluster.cores.size(), 0);
  for (const int host : cluster.hosts)
    ++ranksOf[static_cast<size_t>(cluster.machines[static_cast<size_t>(host)])];
  if (symmetric_) {
    const auto differ = [](const std::vector<int>& numbers) {
      return std::adjacent_find(numbers.begin(), numbers.end(), std::not_equal_to<>()) != numbers.end();
    };
    if (differ(ranksOf) || differ(cluster.cores) || !cluster.unlike.empty())
      throw unsupported("one rank cannot stand for all: machines or links differ");
    machines_.emplace_back(cluster.cores.front(), ranksOf.front());
  } else {
    for (const int cores : cluster.cores) machines_.emplace_back(cores, 1.0);
  }
  watched_.resize(machines_.size(), std::numeric_limits<double>::infinity());
}

/// The gradient of the last layer is the first.
void StepSimulation::addReleases() {
  std::vector<uint32_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [this](uint32_t one, uint32_t other) {
    const double first = description_.gradients[one].release;
    const double second = description_.gradients[other].release;
    return first != second ? first < second : one > other;
  });
  for (uint32_t rank = 0; rank < seen_; ++rank) {
    Thread& main = threads_[threadOf(rank, 0)];
    double computed = 0;
    for (const uint32_t tensor : order) {
      if (description_.gradients[tensor].after >= 0) continue;
      const double release = description_.gradients[tensor].release;
      if (description_.backwardThreads == 0) {
        events_.push(release, EventKind::kRelease, rank, tensor);
        continue;
      }
      main.waiting.push_back({JobKind::kBackward, 0, 0, release - computed});
      main.waiting.push_back({JobKind::kSubmit, tensor, 0});
      computed = release;
    }
    if (description_.backwardThreads > 0 && description_.backward > computed)
      main.waiting.push_back({JobKind::kBackward, 0, 0, description_.backward - computed});
  }
}

}  // namespace hipress

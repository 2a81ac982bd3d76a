// SPDX-License-Identifier: Apache-2.0
//
// Programs of a process group's average, as hipress.torch.process_groups runs them: on each rank one thread
// does the first run, one those between two hops and one the last, each at another batch. The programs, the
// codecs and the table of states are shared by these threads. Copies stand for the group's collectives.
#include "core/slots/slot_executor.h"

#include <algorithm>
#include <cstring>
#include <latch>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/codec/registry.h"
#include "core/device/host_device.h"
#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/world.h"

namespace hipress::stress {
namespace {

constexpr size_t kCounts[] = {5000, 0, 1, 257, 1024};
constexpr int kBatches = 6;

/// The slots of all tensors of one batch, cut into a partition for each rank.
std::vector<Slot> slotsOf(const std::string& codecText, int world, int batch) {
  const CodecPointer codec = createCodec(codecText);
  std::vector<Slot> slots;
  for (size_t tensor = 0; tensor < std::size(kCounts); ++tensor) {
    size_t first = 0;
    for (int part = 0; part < world; ++part) {
      Slot slot;
      // Batches have tensors of their own, like the buckets of DistributedDataParallel.
      slot.name = "tensor " + std::to_string(tensor) + " of batch " + std::to_string(batch);
      slot.partition = static_cast<size_t>(part);
      slot.tensor = tensor;
      slot.first = slot.firstElement = first;
      slot.count = kCounts[tensor] * static_cast<size_t>(part + 1) / static_cast<size_t>(world) - first;
      first += slot.count;
      slot.owner = static_cast<int>((tensor + static_cast<size_t>(part)) % static_cast<size_t>(world));
      slot.codec = codec;
      slot.aggregateCodec = codec->forAggregate();
      if (!slot.aggregateCodec) slot.aggregateCodec = codec;
      slot.raw = codec->maxEncodedBytes(slot.count) >= sizeof(float) * slot.count;
      slot.payloadBytes = slot.raw ? sizeof(float) * slot.count : codec->maxEncodedBytes(slot.count);
      slot.number = static_cast<uint32_t>(tensor);
      slot.workerKey = slot.name + " worker " + std::to_string(part);
      slot.aggregatorKey = slot.name + " aggregator " + std::to_string(part);
      slots.push_back(std::move(slot));
    }
  }
  return slots;
}

std::shared_ptr<Device> hostDevice() {
  static const auto device = std::make_shared<HostDevice>();
  return device;
}

/// One rank's part of one batch.
struct Part {
  std::unique_ptr<SlotExecutor> executor;
  std::vector<std::vector<float>> tensors;
  std::vector<std::byte> arena;
  SlotChanges changed{hostDevice(), true};

  const std::vector<SlotHop>& hops() const { return executor->program().hops(); }
  std::vector<SlotValues> values() {
    std::vector<SlotValues> all;
    for (auto& tensor : tensors) {
      all.push_back({reinterpret_cast<std::byte*>(tensor.data()), DType::kFloat32, tensor.size()});
    }
    return all;
  }
};

/// A batch, and for each hop what ranks wait for: all have computed, and all have read.
struct Batch {
  Batch(int world, size_t hops) : parts(static_cast<size_t>(world)) {
    for (size_t hop = 0; hop < hops; ++hop) {
      computed.push_back(std::make_unique<std::latch>(world));
      read.push_back(std::make_unique<std::latch>(world));
    }
  }

  std::vector<Part> parts;
  std::vector<std::unique_ptr<std::latch>> computed;
  std::vector<std::unique_ptr<std::latch>> read;
};

using Batches = std::vector<std::unique_ptr<Batch>>;

size_t placeOf(const std::vector<size_t>& sizes, size_t rank) {
  return std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(rank), size_t{0});
}

/// What a collective would carry to `rank`.
void receive(Batch& batch, size_t rank, size_t hop) {
  batch.computed[hop]->arrive_and_wait();
  Part& own = batch.parts[rank];
  for (size_t other = 0; other < batch.parts.size(); ++other) {
    Part& theirs = batch.parts[other];
    if (hop >= theirs.hops().size() || hop >= own.hops().size()) continue;
    const SlotHop& sending = theirs.hops()[hop];
    const SlotHop& receiving = own.hops()[hop];
    CHECK(sending.sent[rank] == receiving.received[other], "a rank sends what the other does not expect",
          rank, other, hop);
    if (sending.sent[rank] == 0) continue;
    std::memcpy(&own.arena[receiving.receiveAt + placeOf(receiving.received, other)],
                &theirs.arena[sending.sendAt + placeOf(sending.sent, rank)], sending.sent[rank]);
  }
  batch.read[hop]->arrive_and_wait();
}

Batches randomBatches(Random& random, const std::string& codec, int world, const std::string& topology) {
  Batches batches;
  std::vector<int> hosts;
  for (int rank = 0; topology == "hierarchical" && rank < world; ++rank) hosts.push_back(rank / 2);
  for (int number = 0; number < kBatches; ++number) {
    std::vector<std::unique_ptr<SlotExecutor>> executors;
    size_t hops = 0;
    for (int rank = 0; rank < world; ++rank) {
      auto program = std::make_shared<const SlotProgram>(slotsOf(codec, world, number % 3),
                                                         SlotRanks{topology, rank, world, hosts});
      hops = std::max(hops, program->hops().size());
      executors.push_back(std::make_unique<SlotExecutor>(std::move(program), hostDevice()));
    }
    batches.push_back(std::make_unique<Batch>(world, hops));
    for (size_t rank = 0; rank < executors.size(); ++rank) {
      Part& part = batches.back()->parts[rank];
      part.executor = std::move(executors[rank]);
      part.arena.resize(part.executor->program().arenaBytes());
      for (const size_t count : kCounts) {
        std::vector<float>& values = part.tensors.emplace_back(count);
        for (float& value : values) value = static_cast<float>(random.below(2001)) - 1000.0F;
      }
    }
  }
  return batches;
}

void runRank(Batches& batches, SlotStateTable& states, size_t rank, size_t world, uint64_t seed) {
  std::vector<std::unique_ptr<std::latch>> first;
  std::vector<std::unique_ptr<std::latch>> second;
  for (size_t number = 0; number < batches.size(); ++number) {
    first.push_back(std::make_unique<std::latch>(1));
    second.push_back(std::make_unique<std::latch>(1));
  }
  inThreads(3, [&](int stage) {
    SlotQueue queue(hostDevice(), nullptr);
    for (size_t number = 0; number < batches.size(); ++number) {
      Batch& batch = *batches[number];
      Part& part = batch.parts[rank];
      const auto values = part.values();
      const SlotCall call{values,     states,      {seed, number / 3}, 1.0 / static_cast<double>(world),
                          part.arena, part.changed};
      const auto run = [&](size_t which) {
        if (which <= part.hops().size()) part.executor->run(which, queue, call);
      };
      const size_t hops = batch.computed.size();
      if (stage == 0) {
        run(0);
        first[number]->count_down();
      } else if (stage == 1) {
        first[number]->wait();
        for (size_t hop = 0; hop < hops; ++hop) {
          receive(batch, rank, hop);
          if (hop + 1 < hops) run(hop + 1);
        }
        second[number]->count_down();
      } else {
        second[number]->wait();
        if (hops > 0) run(hops);
        part.executor->check(queue.stream(), part.changed);
        part.executor->raise();
      }
    }
  });
}

}  // namespace

void stressSlots(Random& random) {
  const std::string codec = random.among({"onebit(block=64)", "int8", "int4(block=100)", "terngrad", "fp16",
                                          "dgc(ratio=0.05)", "graddrop(ratio=0.05)", "none"});
  const std::string topology = random.among({"ps", "allgather", "ring", "butterfly", "hierarchical"});
  const int world = static_cast<int>(1 + random.below(4));
  Batches batches = randomBatches(random, codec, world, topology);
  std::vector<std::unique_ptr<SlotStateTable>> states;
  for (int rank = 0; rank < world; ++rank) states.push_back(std::make_unique<SlotStateTable>(hostMemory));
  const uint64_t seed = random.seed();
  inThreads(world, [&](int rank) {
    const auto number = static_cast<size_t>(rank);
    runRank(batches, *states[number], number, static_cast<size_t>(world), seed + number);
  });
  for (const auto& batch : batches) {
    for (const Part& part : batch->parts) {
      for (size_t tensor = 0; tensor < part.tensors.size(); ++tensor) {
        const auto& first = batch->parts[0].tensors[tensor];
        const auto& values = part.tensors[tensor];
        CHECK(values.empty() || std::memcmp(first.data(), values.data(), 4 * values.size()) == 0,
              "ranks have different averages", codec, topology, world, tensor);
      }
    }
  }
}

}  // namespace hipress::stress

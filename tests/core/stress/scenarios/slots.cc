// SPDX-License-Identifier: Apache-2.0
//
// The slots of a process group's average, as hipress.torch.process_groups uses them: on each rank one thread
// encodes, one averages and one decodes, each at another batch. The plan, the codecs and the table of states
// are shared by these threads. Copies stand for the group's collectives.
#include "core/slots/slot_plan.h"

#include <cstring>
#include <latch>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/codec/registry.h"
#include "core/codec/wire/wire_header.h"
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
  std::vector<size_t> offsets(static_cast<size_t>(world), 0);
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
      size_t& offset = offsets[static_cast<size_t>(slot.owner)];
      slot.offset = offset;
      const size_t bytes = kWireHeaderBytes + slot.payloadBytes;
      slot.padding = (kSlotAlignment - bytes % kSlotAlignment) % kSlotAlignment;
      offset += bytes + slot.padding;
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
  std::unique_ptr<SlotPlan> plan;
  std::vector<std::vector<float>> tensors;
  std::vector<std::byte> outward;
  std::vector<std::byte> inward;
  SlotChanges changed{hostDevice(), true};

  std::vector<SlotValues> values() {
    std::vector<SlotValues> all;
    for (auto& tensor : tensors) {
      all.push_back({reinterpret_cast<std::byte*>(tensor.data()), DType::kFloat32, tensor.size()});
    }
    return all;
  }
};

struct Batch {
  explicit Batch(int world) : parts(static_cast<size_t>(world)), encoded(world), averaged(world) {}

  std::vector<Part> parts;
  std::latch encoded;
  std::latch averaged;
};

using Batches = std::vector<std::unique_ptr<Batch>>;

/// Where `rank` has its block for the owner `owner`, and where the owner has the block of `rank`.
std::pair<size_t, size_t> blockStarts(const SlotPlan& plan, int rank, int owner) {
  size_t outward = 0;
  for (int other = 0; other < owner; ++other) outward += other == rank ? 0 : plan.blocks().blockBytes(other);
  const int place = rank < owner ? rank : rank - 1;
  return {outward, static_cast<size_t>(place) * plan.blocks().blockBytes(owner)};
}

/// What a collective would carry: the blocks of all other ranks for `rank`, outward to inward, or back.
void receive(Batch& batch, int rank, bool back) {
  for (int other = 0; other < static_cast<int>(batch.parts.size()); ++other) {
    if (other == rank) continue;
    const int owner = back ? other : rank;
    const int user = back ? rank : other;
    Part& atUser = batch.parts[static_cast<size_t>(user)];
    Part& atOwner = batch.parts[static_cast<size_t>(owner)];
    const auto [outward, inward] = blockStarts(*atUser.plan, user, owner);
    const size_t bytes = atUser.plan->blocks().blockBytes(owner);
    if (bytes == 0) continue;
    std::byte* there = &atUser.outward[outward];
    std::byte* here = &atOwner.inward[inward];
    std::memcpy(back ? there : here, back ? here : there, bytes);
  }
}

Batches randomBatches(Random& random, const std::string& codec, int world) {
  Batches batches;
  for (int number = 0; number < kBatches; ++number) {
    batches.push_back(std::make_unique<Batch>(world));
    for (int rank = 0; rank < world; ++rank) {
      Part& part = batches.back()->parts[static_cast<size_t>(rank)];
      part.plan =
          std::make_unique<SlotPlan>(slotsOf(codec, world, number % 3), rank, world, false, hostDevice());
      part.outward.resize(part.plan->blocks().outwardBytes());
      part.inward.resize(part.plan->blocks().inwardBytes());
      for (const size_t count : kCounts) {
        std::vector<float>& values = part.tensors.emplace_back(count);
        for (float& value : values) value = static_cast<float>(random.below(2001)) - 1000.0F;
      }
    }
  }
  return batches;
}

void runRank(Batches& batches, SlotStateTable& states, int rank, int world, uint64_t seed) {
  const auto each = [&](const auto& work) {
    for (size_t number = 0; number < batches.size(); ++number) {
      Batch& batch = *batches[number];
      work(batch, batch.parts[static_cast<size_t>(rank)], SlotStep{seed, number / 3});
    }
  };
  inThreads(3, [&](int stage) {
    SlotQueue queue(hostDevice(), nullptr);
    if (stage == 0) {
      each([&](Batch& batch, Part& part, SlotStep step) {
        part.plan->encode(queue, part.values(), states, step, part.outward, part.changed);
        batch.encoded.count_down();
      });
    } else if (stage == 1) {
      each([&](Batch& batch, Part& part, SlotStep step) {
        batch.encoded.wait();
        receive(batch, rank, false);
        const float factor = 1.0F / static_cast<float>(world);
        part.plan->average(queue, part.values(), states, step, factor, part.inward, part.changed);
        batch.averaged.count_down();
      });
    } else {
      each([&](Batch& batch, Part& part, SlotStep) {
        batch.averaged.wait();
        receive(batch, rank, true);
        part.plan->decode(queue, part.values(), part.outward, part.changed);
        part.plan->check(queue.stream(), part.changed);
        part.plan->raise();
      });
    }
  });
}

}  // namespace

void stressSlots(Random& random) {
  const std::string codec = random.among({"onebit(block=64)", "int8", "int4(block=100)", "terngrad", "fp16",
                                          "dgc(ratio=0.05)", "graddrop(ratio=0.05)", "none"});
  const int world = static_cast<int>(1 + random.below(4));
  Batches batches = randomBatches(random, codec, world);
  std::vector<std::unique_ptr<SlotStateTable>> states;
  for (int rank = 0; rank < world; ++rank) states.push_back(std::make_unique<SlotStateTable>(hostMemory));
  const uint64_t seed = random.seed();
  inThreads(world, [&](int rank) {
    runRank(batches, *states[static_cast<size_t>(rank)], rank, world, seed + static_cast<uint64_t>(rank));
  });
  for (const auto& batch : batches) {
    for (const Part& part : batch->parts) {
      for (size_t tensor = 0; tensor < part.tensors.size(); ++tensor) {
        const auto& first = batch->parts[0].tensors[tensor];
        const auto& values = part.tensors[tensor];
        CHECK(values.empty() || std::memcmp(first.data(), values.data(), 4 * values.size()) == 0,
              "ranks have different averages", codec, world, tensor);
      }
    }
  }
}

}  // namespace hipress::stress

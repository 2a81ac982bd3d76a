// SPDX-License-Identifier: Apache-2.0
//
// The state store: the value of every element over swaps, failures and other partitions; its memory; many
// threads.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/codec/state/state_store.h"
#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/world.h"

namespace hipress::stress {
namespace {

using States = std::vector<CodecState>;
using Counts = std::vector<size_t>;

Counts randomCut(Random& random, size_t count) {
  Counts counts;
  while (count > 0 || random.oneIn(4)) {
    counts.push_back(random.oneIn(3) ? count : random.below(count + 1));
    count -= counts.back();
  }
  if (counts.empty()) counts.push_back(0);
  return counts;
}

/// Encodes: new = old + 1 in every element, or garbage if it fails. Checks the old values against `expected`.
void step(const std::shared_ptr<TensorStates>& states, const Counts& counts, size_t partition, bool fails,
          std::vector<std::vector<float>>& expected) {
  StateLease lease(states, partition);
  const size_t first =
      std::accumulate(counts.begin(), counts.begin() + static_cast<ptrdiff_t>(partition), size_t{0});
  const EncodeStates vectors = lease.states();
  CHECK(vectors.before.size() == expected.size() && vectors.after.size() == expected.size());
  for (size_t state = 0; state < expected.size(); ++state) {
    CHECK(reinterpret_cast<uintptr_t>(vectors.before[state]) % 64 == 0);
    CHECK(reinterpret_cast<uintptr_t>(vectors.after[state]) % 64 == 0);
    for (size_t i = 0; i < counts[partition]; ++i) {
      CHECK(vectors.before[state][i] == expected[state][first + i], state, partition, i);
      vectors.after[state][i] = fails ? -1.0f : vectors.before[state][i] + static_cast<float>(state + 1);
    }
    if (fails) continue;
    for (size_t i = 0; i < counts[partition]; ++i)
      expected[state][first + i] += static_cast<float>(state + 1);
  }
  if (!fails) lease.commit();
}

void valuesSurviveFailuresAndOtherPartitions(Random& random) {
  StateStore store;
  const States names = {{"momentum"}, {"residual"}};
  const size_t count = random.below(random.oneIn(3) ? 20000 : 40);
  std::vector<std::vector<float>> expected(names.size(), std::vector<float>(count, 0.0f));
  for (int plan = 0; plan < 6; ++plan) {
    const Counts counts = randomCut(random, count);
    const auto states = store.open("w", StateRole::kWorker, names, counts);
    for (int turn = 0; turn < 8; ++turn)
      step(states, counts, random.below(counts.size()), random.oneIn(3), expected);
    for (size_t state = 0; state < names.size(); ++state) {
      CHECK(store.copy("w", StateRole::kWorker, names[state].name) == expected[state], names[state].name,
            plan);
    }
  }
  CHECK(store.bytes() == 2 * count * sizeof(float), store.bytes());
  CHECK(store.entries().size() == 2);
  CHECK(store.copy("w", StateRole::kAggregator, "residual").empty());
  CHECK(store.copy("w", StateRole::kWorker, "other").empty());
  try {
    store.open("w", StateRole::kWorker, names, {count + 1});
    CHECK(false, "another count was accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kMismatch, error.what());
  }
}

/// A state with one value for each block follows its partitions, which begin at multiples of kStateBlock.
void blocksFollowTheirPartitions(Random& random) {
  StateStore store;
  const States states = {{"limit", size_t{1} << random.below(11)}, {"residual"}};
  const size_t count = random.below(20 * kStateBlock);
  const size_t limits = states[0].count(count);
  std::vector<float> expected(limits, 0.0f);
  for (int plan = 0; plan < 6; ++plan) {
    Counts counts;
    for (size_t left = count; left > 0; left -= counts.back())
      counts.push_back(std::min(left, kStateBlock * (1 + random.below(8))));
    if (counts.empty()) counts.push_back(0);
    const auto opened = store.open("w", StateRole::kWorker, states, counts);
    size_t first = 0;
    for (size_t partition = 0; partition < counts.size(); first += counts[partition++]) {
      StateLease lease(opened, partition);
      const EncodeStates vectors = lease.states();
      const bool fails = random.oneIn(3);
      for (size_t i = 0; i < states[0].count(counts[partition]); ++i) {
        float& kept = expected[first / states[0].block + i];
        CHECK(vectors.before[0][i] == kept, plan, partition, i);
        vectors.after[0][i] = kept + 1.0f + static_cast<float>(partition);
        if (!fails) kept = vectors.after[0][i];
      }
      std::fill_n(vectors.after[1], counts[partition], 1.0f);
      if (!fails) lease.commit();
    }
    CHECK(store.copy("w", StateRole::kWorker, "limit") == expected, plan);
    std::vector<float> part(limits / 2);
    store.read("w", StateRole::kWorker, "limit", limits - part.size(), part);
    CHECK(std::equal(part.begin(), part.end(), expected.end() - static_cast<ptrdiff_t>(part.size())), plan);
  }
  CHECK(store.bytes() == (count + limits) * sizeof(float), store.bytes());
  store.put("w", StateRole::kWorker, states[0], {count}, expected);
  CHECK(store.copy("w", StateRole::kWorker, "limit") == expected);
}

/// Another block is another state, and no partition begins inside a block.
void otherBlocksAreRefused() {
  StateStore store;
  const States states = {{"limit", 256}};
  store.open("w", StateRole::kWorker, states, {1024, 100});
  const States others = {{"limit", 128}};
  const std::pair<const States&, Counts> wrong[] = {{others, {1024, 100}}, {states, {1000, 124}}};
  const ErrorKind kinds[] = {ErrorKind::kMismatch, ErrorKind::kInvalidArgument};
  for (size_t each = 0; each < 2; ++each) {
    try {
      store.open("w", StateRole::kWorker, wrong[each].first, wrong[each].second);
      CHECK(false, "other blocks were accepted", each);
    } catch (const Error& error) {
      CHECK(error.kind() == kinds[each], error.what());
    }
  }
}

/// A lease stays valid, but has no effect, after the tensor was erased or divided anew.
void leasesOutliveWhatTheyAreOf() {
  StateStore store;
  const States names = {{"residual"}};
  for (const bool erased : {false, true}) {
    StateLease lease(store.open("w", StateRole::kWorker, names, {100, 100}), 1);
    if (erased) {
      store.erase("w");
    } else {
      store.open("w", StateRole::kWorker, names, {200});
    }
    std::fill_n(lease.states().after[0], 100, 1.0f);
    lease.commit();
    const auto values = store.copy("w", StateRole::kWorker, "residual");
    CHECK(values == (erased ? std::vector<float>{} : std::vector<float>(200, 0.0f)));
  }
  store.open("w", StateRole::kAggregator, names, {50});
  store.clear();
  CHECK(store.bytes() == 0 && store.entries().empty() && store.bytesHeld() == 0, store.bytesHeld());
}

/// The store has spare memory for partitions that are encoded at once, and not for all partitions.
void memoryIsNotDoubled() {
  StateStore store;
  const States names = {{"momentum"}, {"residual"}};
  constexpr size_t kPartition = 65536;
  constexpr size_t kThreads = 2;
  constexpr size_t kPartitions = 60;
  const auto states = store.open("w", StateRole::kWorker, names, Counts(kPartitions, kPartition));
  CHECK(store.bytesHeld() == 0, "memory for states that this rank does not have");
  inThreads(kThreads, [&](int thread) {
    for (int turn = 0; turn < 2; ++turn) {
      for (auto partition = static_cast<size_t>(thread); partition < kPartitions; partition += kThreads) {
        StateLease(states, partition).commit();
      }
    }
  });
  const size_t one = names.size() * kPartition * sizeof(float);
  CHECK(store.bytes() == kPartitions * one);
  CHECK(store.bytesHeld() <= store.bytes() + std::max(3 * kThreads * one, store.bytes() / 8),
        store.bytesHeld() / one);
}

/// Each size gets its old memory again, because new pages from the system cost more than the writing.
void everySizeFindsItsMemoryAgain() {
  StateStore store;
  const States names = {{"momentum"}, {"residual"}};
  const Counts counts = {65536, 1024, 4096, 32768, 2048, 16384};
  const auto states = store.open("w", StateRole::kWorker, names, counts);
  std::set<const float*> known;
  for (int turn = 0; turn < 5; ++turn) {
    for (size_t partition = 0; partition < counts.size(); ++partition) {
      StateLease lease(states, partition);
      for (const float* memory : lease.states().after) {
        const bool isNew = known.insert(memory).second;
        CHECK(!isNew || turn < 2, turn, partition);
      }
      lease.commit();
    }
  }
}

void threadsEncodeWhileOthersCopyAndErase(Random& random) {
  StateStore store;
  const States names = {{"momentum"}, {"residual"}};
  const uint64_t seed = random.seed();
  const Counts shared = {300, 500, 1000};
  inThreads(4, [&](int thread) {
    Random own(seed + static_cast<uint64_t>(thread));
    const std::string name = "own " + std::to_string(thread);
    std::vector<std::vector<float>> expected(names.size(), std::vector<float>(1000, 0.0f));
    for (int turn = 0; turn < 60; ++turn) {
      const Counts counts = randomCut(own, 1000);
      const auto states = store.open(name, StateRole::kAggregator, names, counts);
      step(states, counts, own.below(counts.size()), own.oneIn(4), expected);
      // All threads see whole vectors, old or new, and never a mixture within a partition.
      const StateLease lease(store.open("shared", StateRole::kWorker, names, shared), own.below(3));
      if (thread == 0 && turn % 16 == 0) store.erase("shared");
      StateLease written(store.open("shared", StateRole::kWorker, names, shared), 1);
      const float value = static_cast<float>(own.below(1000));
      for (float* after : written.states().after) std::fill_n(after, shared[1], value);
      written.commit();
      const auto copied = store.copy("shared", StateRole::kWorker, "residual");
      if (!copied.empty()) {
        CHECK(std::all_of(copied.begin() + 300, copied.begin() + 800,
                          [&](float v) { return v == copied[300]; }));
      }
      CHECK(store.copy(name, StateRole::kAggregator, "residual") == expected[1]);
    }
  });
}

}  // namespace

void stressStates(Random& random) {
  valuesSurviveFailuresAndOtherPartitions(random);
  blocksFollowTheirPartitions(random);
  otherBlocksAreRefused();
  leasesOutliveWhatTheyAreOf();
  memoryIsNotDoubled();
  everySizeFindsItsMemoryAgain();
  threadsEncodeWhileOthersCopyAndErase(random);
}

}  // namespace hipress::stress

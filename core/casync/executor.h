// SPDX-License-Identifier: Apache-2.0
//
// What each computing primitive does to an operation: the only place where graphs, codecs and element types
// meet.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/casync/buffer_pool.h"
#include "core/casync/operation.h"

namespace hipress {

class Executor {
 public:
  /// Large encodes and decodes share their work out over `parallel`.
  /// `readable`: the ranks that read each other's memory; empty: none.
  Executor(BufferPool& pool, Parallel& parallel, uint64_t seed, int rank, std::vector<bool> readable)
      : pool_(pool), parallel_(parallel), seed_(seed), rank_(rank), readable_(std::move(readable)) {}

  /// Runs an encode, merge or decode. Throws CorruptPayload (with tensor, partition and sender) for bad
  /// input.
  void run(Operation& operation, const Task& task);

  /// A message's header has come: where its payload goes. Throws CorruptPayload.
  std::span<std::byte> accept(Operation& operation, const Task& recv, const MessageHeader& header,
                              size_t payloadBytes);

  /// Elements that `run` will touch; 0 for a task that only passes memory on.
  static size_t work(const Operation& operation, const Task& task);

 private:
  void encode(Operation& operation, const Task& task);
  void compress(Operation& operation, const Task& task);
  bool mayRefer(const Operation& operation, MessageIndex message) const;
  void decode(Operation& operation, const Task& task);

  // executor_merge.cc
  void merge(Operation& operation, const Task& task);
  bool mergeRaw(Operation& operation, const Task& task);
  bool mergeEncoded(Operation& operation, const Task& task, std::span<float> sum);
  static bool mergeElements(const Operation& operation, const Task& task, std::span<float> sum);
  static void mergeTile(const Operation& operation, const Task& task, size_t begin, std::span<float> sum);
  void add(Operation& operation, const Task& task, const Operand& operand, std::span<float> sum, bool first);
  void addElements(const Operation& operation, std::span<const std::byte> elements, std::span<float> sum,
                   bool first);

  BufferPool& pool_;
  Parallel& parallel_;
  const uint64_t seed_;
  const int rank_;
  const std::vector<bool> readable_;
};

}  // namespace hipress

// SPDX-License-Identifier: Apache-2.0
//
// One tensor's synchronisation on one rank as a dependency graph of CaSync's five primitives (SOSP'21, §3.1).
// Built once per tensor by a topology, which knows neither codec nor transport; armed anew for every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hipress {

enum class Primitive : uint8_t { kEncode, kDecode, kMerge, kSend, kRecv };

constexpr const char* primitiveName(Primitive primitive) {
  constexpr const char* names[] = {"encode", "decode", "merge", "send", "recv"};
  return names[static_cast<size_t>(primitive)];
}

/// Index of a task in its graph.
using TaskIndex = uint32_t;
/// Index of an encoded message that this rank makes or receives.
using MessageIndex = uint32_t;

/// In a merge's contributions: this rank's own gradient, not encoded.
inline constexpr MessageIndex kLocalContribution = UINT32_MAX;

/// What an encode reads.
enum class EncodeSource : uint8_t {
  kInput,      ///< This rank's gradient; by the tensor's codec, with the worker's states.
  kAggregate,  ///< The merged gradient; by its aggregateCodec, with the aggregator's states.
};

struct Task {
  Primitive primitive = Primitive::kEncode;
  EncodeSource source = EncodeSource::kInput;  // encode
  uint16_t partition = 0;
  uint16_t hop = 0;                         // send, recv: distinguishes the messages of a partition
  int peer = -1;                            // send, recv
  MessageIndex message = 0;                 // written by encode and recv, read by send and decode
  std::vector<MessageIndex> contributions;  // merge: in rank order
  std::vector<TaskIndex> successors;
  uint32_t dependencies = 0;  // how many tasks must be complete before this one
};

struct Message {
  uint16_t partition = 0;
  bool decoded = false;  // some task decodes it into the output: a raw payload may be received there directly
};

class TaskGraph {
 public:
  MessageIndex addMessage(uint16_t partition);

  TaskIndex encode(MessageIndex into, EncodeSource source, const std::vector<TaskIndex>& after);
  TaskIndex send(MessageIndex message, int peer, uint16_t hop, const std::vector<TaskIndex>& after);
  TaskIndex recv(MessageIndex into, int peer, uint16_t hop);
  TaskIndex merge(uint16_t partition, std::vector<MessageIndex> contributions,
                  const std::vector<TaskIndex>& after);
  /// Decodes into the output.
  TaskIndex decode(MessageIndex message, const std::vector<TaskIndex>& after);

  const std::vector<Task>& tasks() const { return tasks_; }
  const std::vector<Message>& messages() const { return messages_; }
  /// Tasks without dependencies: receives, and encodes of this rank's own gradient.
  const std::vector<TaskIndex>& roots() const { return roots_; }

 private:
  TaskIndex add(Task task, const std::vector<TaskIndex>& after);

  std::vector<Task> tasks_;
  std::vector<Message> messages_;
  std::vector<TaskIndex> roots_;
};

}  // namespace hipress

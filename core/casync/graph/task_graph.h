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
/// Index of a message that this rank makes or receives.
using MessageIndex = uint32_t;
/// Index of a sum of several ranks' values.
using SumIndex = uint32_t;

/// Values of a partition, wherever they are.
struct Operand {
  enum class Kind : uint8_t {
    kInput,    ///< This rank's gradient.
    kMessage,  ///< What a message carries.
    kSum,      ///< What a merge left.
    kOutput,   ///< The result, where the caller wants it.
    kNothing,  ///< For a message that only says how far its sender is.
  };
  Kind kind = Kind::kInput;
  uint32_t index = 0;  // of the message or the sum

  static Operand input() { return {Kind::kInput, 0}; }
  static Operand message(MessageIndex index) { return {Kind::kMessage, index}; }
  static Operand sum(SumIndex index) { return {Kind::kSum, index}; }
  static Operand output() { return {Kind::kOutput, 0}; }
  static Operand nothing() { return {Kind::kNothing, 0}; }
};

/// As what an encode sends values: decides on codec, states and factor.
enum class EncodeAs : uint8_t {
  kContribution,  ///< To the sum of all ranks: the tensor's codec, the worker's states.
  kPartialSum,    ///< To which others will add: its aggregateCodec, the aggregator's states.
  kResult,        ///< The same for the whole sum, which is multiplied by the aggregate's factor.
};

/// What a merge makes.
enum class MergeAs : uint8_t {
  kPartialSum,  ///< To which others will add.
  kWholeSum,    ///< Of all ranks, to be encoded as the result.
  kOutput,      ///< Of all ranks, with the aggregate's factor, where the caller wants it.
};

struct Task {
  Primitive primitive = Primitive::kEncode;
  EncodeAs encodeAs = EncodeAs::kContribution;
  MergeAs mergeAs = MergeAs::kWholeSum;
  uint16_t partition = 0;
  uint16_t hop = 0;           // send, recv: distinguishes the messages of a partition
  int peer = -1;              // send, recv
  uint16_t depth = 0;         // recv: how many messages in a row must come before it
  MessageIndex message = 0;   // written by encode and recv, read by send and decode
  SumIndex sum = 0;           // merge
  std::vector<Operand> from;  // encode: one; merge: the contributions, in rank order
  std::vector<TaskIndex> successors;
  uint32_t dependencies = 0;  // how many tasks must be complete before this one
};

struct Message {
  uint16_t partition = 0;
  bool plain = false;     // elements as they are, also if the tensor is compressed: between ranks of a host
  bool lent = false;      // its sender's input, unchanged until the receiver has read it
  int peer = -1;          // if it is lent: to or by whom
  bool decoded = false;   // some task decodes it into the output: raw elements may be received there directly
  bool received = false;  // from another rank, rather than encoded by this one
  bool sent = false;      // to another rank
  uint32_t readers = 0;   // tasks that need its bytes: sends, merges, decodes
};

class TaskGraph {
 public:
  MessageIndex addMessage(uint16_t partition, bool plain = false);
  /// A plain message that carries its sender's input, where the sender cannot be done before its receiver has
  /// read that: it may carry instead where the input is.
  MessageIndex addLentMessage(uint16_t partition, int peer);
  SumIndex addSum() { return sums_++; }

  TaskIndex encode(MessageIndex into, Operand from, EncodeAs as, const std::vector<TaskIndex>& after);
  TaskIndex send(MessageIndex message, int peer, uint16_t hop, const std::vector<TaskIndex>& after);
  /// `depth`: how many messages in a row the peer needs before it can send this one.
  TaskIndex recv(MessageIndex into, int peer, uint16_t hop, size_t depth);
  TaskIndex merge(uint16_t partition, SumIndex into, std::vector<Operand> contributions, MergeAs as,
                  const std::vector<TaskIndex>& after);
  /// Decodes into the output.
  TaskIndex decode(MessageIndex message, const std::vector<TaskIndex>& after);

  const std::vector<Task>& tasks() const { return tasks_; }
  const std::vector<Message>& messages() const { return messages_; }
  size_t sums() const { return sums_; }
  /// Tasks without dependencies: receives, and encodes of this rank's own gradient.
  const std::vector<TaskIndex>& roots() const { return roots_; }

 private:
  TaskIndex add(Task task, const std::vector<TaskIndex>& after);

  std::vector<Task> tasks_;
  std::vector<Message> messages_;
  SumIndex sums_ = 0;
  std::vector<TaskIndex> roots_;
};

}  // namespace hipress

// SPDX-License-Identifier: Apache-2.0
//
// A tensor's synchronisation on one rank, as a graph of CaSync's five primitives (SOSP'21, §3.1). A topology
// builds it once per tensor, and knows neither codec nor transport. Each step uses it again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/process_set.h"

namespace hipress {

enum class Primitive : uint8_t { kEncode, kDecode, kMerge, kSend, kRecv };

constexpr const char* primitiveName(Primitive primitive) {
  constexpr const char* names[] = {"encode", "decode", "merge", "send", "recv"};
  return names[static_cast<size_t>(primitive)];
}

/// Index of a task in its graph.
using TaskIndex = uint32_t;
/// Index of a message that this rank encodes or receives.
using MessageIndex = uint32_t;
/// Index of a sum of several ranks' values.
using SumIndex = uint32_t;

/// The values of a partition, in one of several places.
struct Operand {
  enum class Kind : uint8_t {
    kInput,    ///< This rank's gradient.
    kMessage,  ///< The values in a message.
    kSum,      ///< The sum of a merge.
    kOutput,   ///< The result, in the caller's memory.
    kNothing,  ///< No values: the message only reports its sender's progress.
  };
  Kind kind = Kind::kInput;
  uint32_t index = 0;  // of the message or the sum

  static Operand input() { return {Kind::kInput, 0}; }
  static Operand message(MessageIndex index) { return {Kind::kMessage, index}; }
  static Operand sum(SumIndex index) { return {Kind::kSum, index}; }
  static Operand output() { return {Kind::kOutput, 0}; }
  static Operand nothing() { return {Kind::kNothing, 0}; }
};

/// The purpose of an encode, which decides on codec, states and factor.
enum class EncodeAs : uint8_t {
  kContribution,  ///< For the sum of all ranks: the tensor's codec, the worker's states.
  kPartialSum,    ///< For a later merge: aggregateCodec, the aggregator's states.
  kResult,        ///< For all ranks: the same codec and states, and the aggregate's factor.
};

/// The kind of sum that a merge makes.
enum class MergeAs : uint8_t {
  kPartialSum,  ///< A sum to which other ranks will add.
  kWholeSum,    ///< The sum of all ranks, which an encode will read.
  kOutput,      ///< The sum of all ranks times the aggregate's factor, in the output.
};

struct Task {
  Primitive primitive = Primitive::kEncode;
  EncodeAs encodeAs = EncodeAs::kContribution;
  MergeAs mergeAs = MergeAs::kWholeSum;
  uint16_t partition = 0;
  uint16_t hop = 0;           // send, recv: distinguishes the messages of a partition
  int peer = -1;              // send, recv
  uint16_t depth = 0;         // recv: number of messages in a row that must come before this one
  uint16_t level = 0;         // number of messages in a row that come before this task begins
  MessageIndex message = 0;   // written by encode and recv, read by send and decode
  SumIndex sum = 0;           // merge
  std::vector<Operand> from;  // encode: one; merge: the contributions, in rank order
  std::vector<TaskIndex> successors;
  uint32_t dependencies = 0;  // number of tasks that must be complete before this one
};

struct Message {
  uint16_t partition = 0;
  bool plain = false;     // raw elements even if the tensor is compressed: between ranks of a host
  bool own = false;       // this rank's values, which no merge has touched
  bool lent = false;      // the sender's input, unchanged until the receiver has read it
  int peer = -1;          // for a lent message: the other rank
  bool decoded = false;   // a task decodes it into the output: raw elements may arrive there directly
  bool received = false;  // from another rank; this rank does not encode it
  int sender = -1;        // of a received message
  bool sent = false;      // to another rank
  uint32_t readers = 0;   // tasks that need its bytes: sends, merges, decodes
};

class TaskGraph {
 public:
  MessageIndex addMessage(uint16_t partition, bool plain = false);
  /// A plain message with the sender's input. The sender's operation cannot end before the receiver has read
  /// the input, so the message may carry a reference instead.
  MessageIndex addLentMessage(uint16_t partition, int peer);
  SumIndex addSum() { return sums_++; }

  TaskIndex encode(MessageIndex into, Operand from, EncodeAs as, const std::vector<TaskIndex>& after);
  TaskIndex send(MessageIndex message, int peer, uint16_t hop, const std::vector<TaskIndex>& after);
  /// `depth`: the level of the peer's send, so the number of messages in a row that come before this one.
  TaskIndex recv(MessageIndex into, int peer, uint16_t hop, size_t depth);
  TaskIndex merge(uint16_t partition, SumIndex into, std::vector<Operand> contributions, MergeAs as,
                  const std::vector<TaskIndex>& after);
  /// Decodes into the output.
  TaskIndex decode(MessageIndex message, const std::vector<TaskIndex>& after);

  /// The next tasks have this level at least: their rank does not wait for others, but other ranks of the
  /// same exchange do.
  void startAt(size_t level) { least_ = static_cast<uint16_t>(level); }

  /// Until now ranks had their positions in a process set; from now on they have their numbers in the job.
  void nameRanks(const ProcessSet& among);

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
  uint16_t least_ = 0;
  std::vector<TaskIndex> roots_;
};

}  // namespace hipress

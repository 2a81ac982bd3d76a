// SPDX-License-Identifier: Apache-2.0
#include "core/casync/graph/task_graph.h"

#include <algorithm>
#include <utility>

namespace hipress {

MessageIndex TaskGraph::addMessage(uint16_t partition, bool plain) {
  messages_.push_back({partition, plain});
  return static_cast<MessageIndex>(messages_.size() - 1);
}

MessageIndex TaskGraph::addLentMessage(uint16_t partition, int peer) {
  const MessageIndex message = addMessage(partition, true);
  messages_[message].lent = true;
  messages_[message].peer = peer;
  return message;
}

TaskIndex TaskGraph::add(Task task, const std::vector<TaskIndex>& after) {
  const auto index = static_cast<TaskIndex>(tasks_.size());
  task.dependencies = static_cast<uint32_t>(after.size());
  const bool receives = task.primitive == Primitive::kRecv;
  task.level = receives ? static_cast<uint16_t>(task.depth + 1) : least_;
  for (const TaskIndex predecessor : after) task.level = std::max(task.level, tasks_[predecessor].level);
  tasks_.push_back(std::move(task));
  for (const TaskIndex predecessor : after) tasks_[predecessor].successors.push_back(index);
  if (after.empty()) roots_.push_back(index);
  return index;
}

TaskIndex TaskGraph::encode(MessageIndex into, Operand from, EncodeAs as,
                            const std::vector<TaskIndex>& after) {
  messages_[into].own = from.kind == Operand::Kind::kInput;
  Task task;
  task.primitive = Primitive::kEncode;
  task.encodeAs = as;
  task.partition = messages_[into].partition;
  task.message = into;
  task.from = {from};
  return add(std::move(task), after);
}

TaskIndex TaskGraph::send(MessageIndex message, int peer, uint16_t hop, const std::vector<TaskIndex>& after) {
  Task task;
  task.primitive = Primitive::kSend;
  task.partition = messages_[message].partition;
  task.hop = hop;
  task.peer = peer;
  task.message = message;
  messages_[message].sent = true;
  ++messages_[message].readers;
  return add(std::move(task), after);
}

TaskIndex TaskGraph::recv(MessageIndex into, int peer, uint16_t hop, size_t depth) {
  Task task;
  task.primitive = Primitive::kRecv;
  task.depth = static_cast<uint16_t>(depth);
  task.partition = messages_[into].partition;
  task.hop = hop;
  task.peer = peer;
  task.message = into;
  messages_[into].received = true;
  messages_[into].sender = peer;
  return add(std::move(task), {});
}

TaskIndex TaskGraph::merge(uint16_t partition, SumIndex into, std::vector<Operand> contributions, MergeAs as,
                           const std::vector<TaskIndex>& after) {
  Task task;
  task.primitive = Primitive::kMerge;
  task.mergeAs = as;
  task.partition = partition;
  task.sum = into;
  for (const Operand& operand : contributions) {
    if (operand.kind == Operand::Kind::kMessage) ++messages_[operand.index].readers;
  }
  task.from = std::move(contributions);
  return add(std::move(task), after);
}

void TaskGraph::nameRanks(const ProcessSet& among) {
  const auto name = [&among](int& rank) {
    if (rank >= 0) rank = rankAt(among, static_cast<size_t>(rank));
  };
  for (Task& task : tasks_) name(task.peer);
  for (Message& message : messages_) {
    name(message.peer);
    name(message.sender);
  }
}

TaskIndex TaskGraph::decode(MessageIndex message, const std::vector<TaskIndex>& after) {
  messages_[message].decoded = true;
  ++messages_[message].readers;
  Task task;
  task.primitive = Primitive::kDecode;
  task.partition = messages_[message].partition;
  task.message = message;
  return add(std::move(task), after);
}

}  // namespace hipress

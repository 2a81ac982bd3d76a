// SPDX-License-Identifier: Apache-2.0
#include "core/casync/task_graph.h"

#include <utility>

namespace hipress {

MessageIndex TaskGraph::addMessage(uint16_t partition) {
  messages_.push_back({partition, false});
  return static_cast<MessageIndex>(messages_.size() - 1);
}

TaskIndex TaskGraph::add(Task task, const std::vector<TaskIndex>& after) {
  const auto index = static_cast<TaskIndex>(tasks_.size());
  task.dependencies = static_cast<uint32_t>(after.size());
  tasks_.push_back(std::move(task));
  for (const TaskIndex predecessor : after) tasks_[predecessor].successors.push_back(index);
  if (after.empty()) roots_.push_back(index);
  return index;
}

TaskIndex TaskGraph::encode(MessageIndex into, EncodeSource source, const std::vector<TaskIndex>& after) {
  Task task;
  task.primitive = Primitive::kEncode;
  task.source = source;
  task.partition = messages_[into].partition;
  task.message = into;
  return add(std::move(task), after);
}

TaskIndex TaskGraph::send(MessageIndex message, int peer, uint16_t hop, const std::vector<TaskIndex>& after) {
  Task task;
  task.primitive = Primitive::kSend;
  task.partition = messages_[message].partition;
  task.hop = hop;
  task.peer = peer;
  task.message = message;
  return add(std::move(task), after);
}

TaskIndex TaskGraph::recv(MessageIndex into, int peer, uint16_t hop) {
  Task task;
  task.primitive = Primitive::kRecv;
  task.partition = messages_[into].partition;
  task.hop = hop;
  task.peer = peer;
  task.message = into;
  return add(std::move(task), {});
}

TaskIndex TaskGraph::merge(uint16_t partition, std::vector<MessageIndex> contributions,
                           const std::vector<TaskIndex>& after) {
  Task task;
  task.primitive = Primitive::kMerge;
  task.partition = partition;
  task.contributions = std::move(contributions);
  return add(std::move(task), after);
}

TaskIndex TaskGraph::decode(MessageIndex message, const std::vector<TaskIndex>& after) {
  messages_[message].decoded = true;
  Task task;
  task.primitive = Primitive::kDecode;
  task.partition = messages_[message].partition;
  task.message = message;
  return add(std::move(task), after);
}

}  // namespace hipress

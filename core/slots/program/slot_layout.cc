// SPDX-License-Identifier: Apache-2.0
#include "core/slots/program/slot_layout.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "core/codec/wire/wire_header.h"

namespace hipress {
namespace {

size_t padded(size_t bytes) {
  return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

// A run and the hop behind it are two moments.
size_t timeOfRun(size_t run) {
  return 2 * run;
}
size_t timeOfHop(size_t hop) {
  return 2 * hop + 1;
}

/// Memory that is used from one moment to another.
struct Area {
  size_t bytes = 0;
  size_t begin = 0;
  size_t end = 0;  ///< The last moment.
  size_t at = 0;
  const Area* sharedWith = nullptr;  ///< It has the place of this area.

  /// Returns the place in the area.
  size_t add(size_t more) { return std::exchange(bytes, bytes + padded(more)); }
  void use(size_t from, size_t until) {
    begin = std::min(begin, from);
    end = std::max(end, until);
  }
  bool meets(const Area& other) const { return begin <= other.end && other.begin <= end; }
};

/// A place in an area.
struct Place {
  Area* area = nullptr;
  size_t offset = 0;

  size_t at() const { return area->at + offset; }
};

/// A message on its way between this rank and another one.
struct Travel {
  size_t slot = 0;
  const Task* task = nullptr;
};

class Builder {
 public:
  Builder(const SlotProgram& program, size_t hops)
      : program_(program), sends_(hops), receives_(hops), sendAreas_(hops), receiveAreas_(hops) {
    layout_.hops.resize(hops);
    layout_.copies.resize(hops + 1);
  }

  SlotLayout build() {
    collect();
    for (size_t hop = 0; hop < layout_.hops.size(); ++hop) {
      sendAreas_[hop].begin = sendAreas_[hop].end = timeOfHop(hop);
      receiveAreas_[hop].begin = receiveAreas_[hop].end = timeOfHop(hop);
      layOutHop(hop);
    }
    placeMessages();
    placeSums();
    shareAreas();
    placeAreas();
    return result();
  }

 private:
  size_t ranks() const { return static_cast<size_t>(program_.ranks().world); }
  size_t bytesOf(size_t slot, MessageIndex message) const {
    return padded(kWireHeaderBytes + program_.payloadBytes(slot, message));
  }

  /// The tasks that send and receive in each hop, by rank, in an order that both ranks share.
  void collect() {
    const auto order = [](const Travel& one, const Travel& other) {
      return std::pair(one.slot, one.task->hop) < std::pair(other.slot, other.task->hop);
    };
    for (auto* const all : {&sends_, &receives_}) {
      for (auto& ofHop : *all) ofHop.resize(ranks());
    }
    homes_.resize(program_.slots().size());
    for (size_t slot = 0; slot < program_.slots().size(); ++slot) {
      homes_[slot].resize(program_.graph(slot).messages().size());
      for (const Task& task : program_.graph(slot).tasks()) {
        const auto peer = static_cast<size_t>(std::max(task.peer, 0));
        if (task.primitive == Primitive::kSend) sends_[task.level][peer].push_back({slot, &task});
        if (task.primitive == Primitive::kRecv) receives_[task.depth][peer].push_back({slot, &task});
      }
    }
    for (auto* const all : {&sends_, &receives_}) {
      for (auto& ofHop : *all) {
        for (auto& ofRank : ofHop) std::ranges::stable_sort(ofRank, order);
      }
    }
  }

  /// The blocks of the ranks, one behind the other. A message's home is where it is received or sent first.
  void layOutHop(size_t hop) {
    SlotHop& made = layout_.hops[hop];
    for (size_t rank = 0; rank < ranks(); ++rank) {
      size_t counted = 0;
      const size_t sent = sendAreas_[hop].bytes;
      const size_t received = receiveAreas_[hop].bytes;
      for (const auto& [slot, task] : sends_[hop][rank]) {
        const size_t bytes = bytesOf(slot, task->message);
        const Place place{&sendAreas_[hop], sendAreas_[hop].add(bytes)};
        if (program_.slots()[slot].counted) counted += bytes;
        Place& home = homes_[slot][task->message];
        if (home.area == nullptr) {
          home = place;
        } else {
          copies_.push_back({hop, home, place, bytes});
          place.area->use(timeOfRun(hop), timeOfHop(hop));
        }
      }
      for (const auto& [slot, task] : receives_[hop][rank])
        homes_[slot][task->message] = {&receiveAreas_[hop],
                                       receiveAreas_[hop].add(bytesOf(slot, task->message))};
      made.sent.push_back(sendAreas_[hop].bytes - sent);
      made.received.push_back(receiveAreas_[hop].bytes - received);
      made.counted.push_back(counted);
    }
  }

  /// Finds from when to when messages are needed. Messages that do not travel share areas.
  void placeMessages() {
    for (size_t slot = 0; slot < program_.slots().size(); ++slot) {
      std::vector<std::pair<size_t, size_t>> times(homes_[slot].size(), {SIZE_MAX, 0});
      const auto use = [&](MessageIndex message, size_t moment) {
        auto& [begin, end] = times[message];
        begin = std::min(begin, moment);
        end = std::max(end, moment);
      };
      for (const Task& task : program_.graph(slot).tasks()) {
        const bool receives = task.primitive == Primitive::kRecv;
        if (task.primitive != Primitive::kMerge)
          use(task.message, receives ? timeOfHop(task.depth) : timeOfRun(task.level));
        for (const Operand& operand : task.from) {
          if (operand.kind == Operand::Kind::kMessage) use(operand.index, timeOfRun(task.level));
        }
      }
      for (MessageIndex message = 0; message < times.size(); ++message) {
        const auto [begin, end] = times[message];
        if (begin == SIZE_MAX) continue;
        Place& home = homes_[slot][message];
        if (home.area == nullptr) home = inOwnArea(begin, end, bytesOf(slot, message));
        home.area->use(begin, end);
      }
    }
  }

  void placeSums() {
    for (size_t slot = 0; slot < program_.slots().size(); ++slot) {
      const TaskGraph& graph = program_.graph(slot);
      std::vector<size_t> made(graph.sums(), 0);
      std::vector<size_t> last(graph.sums(), 0);
      std::vector<bool> stays(graph.sums(), false);
      for (const Task& task : graph.tasks()) {
        for (const Operand& operand : task.from) {
          if (operand.kind != Operand::Kind::kSum) continue;
          last[operand.index] = std::max<size_t>(last[operand.index], task.level);
          if (task.primitive == Primitive::kMerge || task.level != made[operand.index])
            stays[operand.index] = true;
        }
        if (task.primitive == Primitive::kMerge) made[task.sum] = task.level;
      }
      auto& places = sums_.emplace_back(graph.sums());
      if (program_.slots()[slot].raw) continue;  // the tensor has the sums of raw slots
      for (SumIndex sum = 0; sum < graph.sums(); ++sum) {
        if (stays[sum])
          places[sum] = inOwnArea(timeOfRun(made[sum]), timeOfRun(last[sum]),
                                  program_.slots()[slot].count * sizeof(float));
      }
    }
  }

  Place inOwnArea(size_t begin, size_t end, size_t bytes) {
    const auto [found, isNew] = ownAreas_.try_emplace({begin, end});
    Area& area = found->second;
    if (isNew) std::tie(area.begin, area.end) = found->first;
    return {&area, area.add(bytes)};
  }

  /// A hop sends from where the hop before has received, if the same slots lie there: when a rank encodes a
  /// sum, it has read the contributions to it; and a result travels on without a copy.
  void shareAreas() {
    for (size_t hop = 1; hop < layout_.hops.size(); ++hop) {
      const auto same = [&](const Travel& received, const Travel& sent) {
        return received.slot == sent.slot &&
               bytesOf(received.slot, received.task->message) == bytesOf(sent.slot, sent.task->message) &&
               (received.task->message == sent.task->message || isSumOf(sent, received));
      };
      if (sendAreas_[hop].begin < timeOfRun(hop)) continue;
      if (!std::ranges::equal(inOrder(receives_[hop - 1]), inOrder(sends_[hop]), same)) continue;
      receiveAreas_[hop - 1].use(sendAreas_[hop].begin, sendAreas_[hop].end);
      sendAreas_[hop].sharedWith = &receiveAreas_[hop - 1];
    }
  }

  static std::vector<Travel> inOrder(const std::vector<std::vector<Travel>>& ofRanks) {
    std::vector<Travel> all;
    for (const auto& ofRank : ofRanks) all.insert(all.end(), ofRank.begin(), ofRank.end());
    return all;
  }

  /// Whether the sent message is the encoded sum of a merge that alone reads the received one.
  bool isSumOf(const Travel& sent, const Travel& received) const {
    const auto& tasks = program_.graph(sent.slot).tasks();
    const auto encode = std::ranges::find_if(tasks, [&](const Task& task) {
      return task.primitive == Primitive::kEncode && task.message == sent.task->message;
    });
    if (encode == tasks.end() || encode->from.front().kind != Operand::Kind::kSum) return false;
    return std::ranges::all_of(tasks, [&](const Task& task) {
      const bool moves = task.primitive == Primitive::kSend || task.primitive == Primitive::kDecode;
      if (moves && task.message == received.task->message) return false;
      const bool merges = std::ranges::any_of(task.from, [&](const Operand& operand) {
        return operand.kind == Operand::Kind::kMessage && operand.index == received.task->message;
      });
      return !merges || task.sum == encode->from.front().index;
    });
  }

  /// The largest areas first, each where no area lies that is used at the same time.
  void placeAreas() {
    std::vector<Area*> areas;
    for (auto* const ofHops : {&sendAreas_, &receiveAreas_}) {
      for (Area& area : *ofHops) {
        if (area.sharedWith == nullptr) areas.push_back(&area);
      }
    }
    for (auto& [times, area] : ownAreas_) areas.push_back(&area);
    std::ranges::stable_sort(areas, std::greater<>(), &Area::bytes);
    std::vector<const Area*> placed;
    for (Area* const area : areas) {
      for (const Area* const other : placed) {
        if (area->meets(*other) && area->at < other->at + other->bytes && other->at < area->at + area->bytes)
          area->at = other->at + other->bytes;
      }
      layout_.bytes = std::max(layout_.bytes, area->at + area->bytes);
      const auto behind = std::ranges::upper_bound(placed, area->at, {}, &Area::at);
      placed.insert(behind, area);
    }
    for (Area& area : sendAreas_) {
      if (area.sharedWith != nullptr) area.at = area.sharedWith->at;
    }
  }

  SlotLayout result() {
    for (size_t hop = 0; hop < layout_.hops.size(); ++hop) {
      layout_.hops[hop].sendAt = sendAreas_[hop].at;
      layout_.hops[hop].receiveAt = receiveAreas_[hop].at;
    }
    for (const auto& [run, from, to, bytes] : copies_) {
      if (from.at() != to.at()) layout_.copies[run].push_back({from.at(), to.at(), bytes});
    }
    for (size_t slot = 0; slot < homes_.size(); ++slot) {
      auto& messages = layout_.messagesAt.emplace_back();
      for (const Place& home : homes_[slot]) messages.push_back(home.area == nullptr ? 0 : home.at());
      auto& sums = layout_.sumsAt.emplace_back();
      for (const auto& place : sums_[slot]) sums.push_back(place ? std::optional(place->at()) : std::nullopt);
    }
    return std::move(layout_);
  }

  struct Copy {
    size_t run;
    Place from;
    Place to;
    size_t bytes;
  };

  const SlotProgram& program_;
  SlotLayout layout_;
  std::vector<std::vector<std::vector<Travel>>> sends_;  ///< By hop and rank.
  std::vector<std::vector<std::vector<Travel>>> receives_;
  std::vector<Area> sendAreas_;
  std::vector<Area> receiveAreas_;
  std::map<std::pair<size_t, size_t>, Area> ownAreas_;  ///< By their times.
  std::vector<std::vector<Place>> homes_;
  std::vector<std::vector<std::optional<Place>>> sums_;
  std::vector<Copy> copies_;
};

}  // namespace

SlotLayout layOut(const SlotProgram& program, size_t hops) {
  return Builder(program, hops).build();
}

}  // namespace hipress

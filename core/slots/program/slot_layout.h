// SPDX-License-Identifier: Apache-2.0
//
// Where the messages and sums of a program lie in its arena.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/slots/program/slot_program.h"

namespace hipress {

struct SlotLayout {
  std::vector<SlotHop> hops;
  std::vector<std::vector<SlotCopy>> copies;               ///< By run.
  std::vector<std::vector<size_t>> messagesAt;             ///< By slot and message.
  std::vector<std::vector<std::optional<size_t>>> sumsAt;  ///< By slot and sum.
  size_t bytes = 0;
};

/// `program` has its slots and graphs; `hops` is their number.
SlotLayout layOut(const SlotProgram& program, size_t hops);

}  // namespace hipress

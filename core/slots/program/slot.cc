// SPDX-License-Identifier: Apache-2.0
#include "core/slots/program/slot.h"

namespace hipress {

bool keepsStates(const Slot& slot) {
  return !slot.raw && (!slot.codec->states().empty() ||
                       (slot.aggregateCodec != nullptr && !slot.aggregateCodec->states().empty()));
}

EncodeContext encodeContext(const Slot& slot, SlotStep step, EncodeAs as, float factor) {
  EncodeContext context;
  context.seed = step.seed + (static_cast<uint64_t>(as) << 32);
  context.step = step.step;
  context.tensor = slot.number;
  context.firstElement = slot.firstElement;
  context.scale = factor;
  return context;
}

double rawFactor(const Slot& slot, double factor) {
  return (slot.scaled ? 1.0 : factor) * slot.codec->gradientFactor();
}

}  // namespace hipress

// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of a tensor that is sent as two linked tensors, on this rank: the values of the first linked
// tensor; the values of the second one, from the sum of the first; and the result, from both sums.
#pragma once

#include "core/codec/parallel.h"

namespace hipress {

class LinkedValues {
 public:
  virtual ~LinkedValues() = default;

  /// A rank without values in this step contributes nothing to the linked tensors, and gets the result.
  virtual bool hasValues() const = 0;

  /// Makes this rank's values in first(), where the ranks' combination is to be. Throws Error.
  virtual void makeFirst(Parallel& parallel) = 0;
  virtual void* first() const = 0;
  /// first() is the combination now: makes this rank's values in second(), where the sum is to be. Throws
  /// Error.
  virtual void makeSecond(Parallel& parallel) = 0;
  virtual void* second() const = 0;
  /// second() is the sum now: writes the result and keeps the states. Not-a-number and infinity on any rank
  /// make the result NaN everywhere and leave the states as they were, on all ranks. Throws Error.
  virtual void finish(Parallel& parallel) = 0;
};

}  // namespace hipress

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace hipress {

/// Values by number. A new value gets the number and the memory of a removed value: once the table has had
/// its largest number of values, it allocates nothing.
template <typename Value>
class Slots {
 public:
  size_t put(Value&& value) {
    if (free_.empty()) {
      values_.push_back(std::move(value));
      return values_.size() - 1;
    }
    const size_t number = free_.back();
    free_.pop_back();
    values_[number] = std::move(value);
    return number;
  }

  Value take(size_t number) {
    free_.push_back(number);
    return std::move(values_[number]);
  }

 private:
  std::vector<Value> values_;
  std::vector<size_t> free_;
};

}  // namespace hipress

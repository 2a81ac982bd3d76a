// SPDX-License-Identifier: Apache-2.0
#include "core/codec/options.h"

#include "core/error.h"

namespace hipress {

bool CodecOptions::boolean(const std::string& option) const {
  const std::string& value = values_.at(option);
  if (value == "true") return true;
  if (value == "false") return false;
  throw invalidArgument("codec " + codec_ + ": option " + option + " is '" + value +
                        "', must be true or false");
}

}  // namespace hipress

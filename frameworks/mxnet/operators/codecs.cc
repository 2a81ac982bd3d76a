// SPDX-License-Identifier: Apache-2.0
//
// mx.nd.hipress_<codec>_encode, _decode and _decode_accumulate, for the codecs that the process has when
// mx.library.load() loads this library. A second load adds the codecs that have come since. MXNet's extension
// interface does not tell a function which operator it serves. So there are slots: each slot has a set of
// functions that know only their slot's number.
#include <mxnet/lib_api.h>

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "core/codec/registry.h"
#include "frameworks/mxnet/operators/codec_kernels.h"

namespace hipress::mxnet_operators {
namespace {

using ::mxnet::ext::CustomOp;
using ::mxnet::ext::OpResource;
using Operators = ::mxnet::ext::Registry<CustomOp>;

struct Slot {
  OperatorNames names;
  std::array<std::string, 3> operators;  // MXNet keeps pointers to these
};

constexpr size_t kSlots = 64;

std::array<Slot, kSlots>& slots() {
  static std::array<Slot, kSlots> all;
  return all;
}

template <size_t slot>
struct SlotFunctions {
  static const OperatorNames& names() { return slots()[slot].names; }

  static void addEncode() {
    Operators::get()
        ->add(slots()[slot].operators[0].c_str())
        .setForward([](const Attributes& attributes, Arrays* inputs, Arrays* outputs,
                       const OpResource&) { return encode(names(), attributes, inputs, outputs); },
                    "cpu")
        .setParseAttrs([](const Attributes&, int* inputs, int* outputs) {
          return counts(names().states.size() + 2, 2, inputs, outputs);
        })
        .setInferType([](const Attributes&, Types* inputs, Types* outputs) {
          return encodeTypes(names(), inputs, outputs);
        })
        .setInferShape([](const Attributes& attributes, Shapes* inputs, Shapes* outputs) {
          return encodeShapes(names(), attributes, inputs, outputs);
        })
        .setMutateInputs([](const Attributes&, Types* inputs) { return encodeMutates(names(), inputs); });
  }

  static void addDecode() {
    Operators::get()
        ->add(slots()[slot].operators[1].c_str())
        .setForward([](const Attributes& attributes, Arrays* inputs, Arrays* outputs,
                       const OpResource&) { return decode(names(), attributes, inputs, outputs); },
                    "cpu")
        .setParseAttrs(
            [](const Attributes&, int* inputs, int* outputs) { return counts(2, 1, inputs, outputs); })
        .setInferType([](const Attributes&, Types* inputs, Types* outputs) {
          return decodeTypes(names(), inputs, outputs);
        })
        .setInferShape([](const Attributes& attributes, Shapes*, Shapes* outputs) {
          return decodeShapes(names(), attributes, outputs);
        });
  }

  static void addDecodeAccumulate() {
    Operators::get()
        ->add(slots()[slot].operators[2].c_str())
        .setForward([](const Attributes& attributes, Arrays* inputs, Arrays* outputs,
                       const OpResource&) { return decodeAccumulate(names(), attributes, inputs, outputs); },
                    "cpu")
        .setParseAttrs(
            [](const Attributes&, int* inputs, int* outputs) { return counts(3, 1, inputs, outputs); })
        .setInferType([](const Attributes&, Types* inputs, Types* outputs) {
          return accumulateTypes(names(), inputs, outputs);
        })
        .setInferShape([](const Attributes&, Shapes* inputs, Shapes* outputs) {
          return accumulateShapes(inputs, outputs);
        });
  }

  static void add() {
    addEncode();
    addDecode();
    addDecodeAccumulate();
  }
};

template <size_t... slot>
constexpr std::array<void (*)(), kSlots> adders(std::index_sequence<slot...> /*slots*/) {
  return {&SlotFunctions<slot>::add...};
}

constexpr std::array<void (*)(), kSlots> kAdders = adders(std::make_index_sequence<kSlots>());

void addNewCodecs() {
  static size_t used = 0;
  // MXNet takes all operators in this library's registry. It must not get an operator a second
  // time.
  static const auto& none = *new Operators(*Operators::get());
  *Operators::get() = none;
  for (const CodecDescription& codec : describeCodecs()) {
    bool known = false;
    for (size_t slot = 0; slot < used; ++slot) known |= slots()[slot].names.codec == codec.name;
    if (known) continue;
    if (used == kSlots)
      throw unsupported("no more than " + std::to_string(kSlots) + " codecs can have operators");
    const std::string prefix = "hipress_" + codec.name;
    std::vector<std::string> states;
    for (const CodecState& state : codec.states) states.push_back(state.name);
    slots()[used] = {{codec.name, states},
                     {prefix + "_encode", prefix + "_decode", prefix + "_decode_accumulate"}};
    kAdders[used++]();
  }
}

}  // namespace
}  // namespace hipress::mxnet_operators

/// MXNet calls this at each load of the library.
__attribute__((visibility("default"))) ::mxnet::ext::MXReturnValue initialize(int version) {
  return hipress::mxnet_operators::guarded([version] {
    if (version < 10800) throw hipress::unsupported("the codec operators need MXNet 1.8 or 1.9");
    hipress::mxnet_operators::addNewCodecs();
  });
}

// SPDX-License-Identifier: Apache-2.0
//
// torch.ops.hipress.register_codec makes <codec>_encode, <codec>_decode and <codec>_decode_accumulate for any
// codec of the process. Their arguments have the names of the codec's states, so a schema exists only after
// its codec. torch does not tell a kernel of the stable ABI, which is a plain function, which operator it
// serves. So there are slots: each slot has a set of functions that know only their slot's number.
#include <torch/csrc/stable/library.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/codec/registry.h"
#include "frameworks/torch/operators/codec_kernels.h"

namespace {

namespace operators = hipress::torch_operators;
using torch::stable::Tensor;
using torch::stable::detail::from;
using torch::stable::detail::StableLibrary;
using torch::stable::detail::to;

struct Slot {
  std::string codec;
  std::vector<hipress::CodecState> states;
};

constexpr size_t kSlots = 64;

std::array<Slot, kSlots>& slots() {
  static std::array<Slot, kSlots> all;
  return all;
}

/// Takes the arguments off the stack one by one, so that each has an owner before a call can fail.
class Arguments {
 public:
  explicit Arguments(const StableIValue* stack) : next_(stack) {}
  template <typename T>
  T take() {
    return to<T>(*next_++);
  }

 private:
  const StableIValue* next_;
};

template <size_t slot>
void encode(StableIValue* stack, uint64_t /*arguments*/, uint64_t /*results*/) {
  const Slot& own = slots()[slot];
  Arguments arguments(stack);
  const auto gradient = arguments.take<Tensor>();
  std::vector<operators::StateArgument> states;
  for (const hipress::CodecState& state : own.states)
    states.push_back({state.name, arguments.take<std::optional<Tensor>>()});
  const auto options = arguments.take<std::string>();
  const auto seed = arguments.take<int64_t>();
  const auto step = arguments.take<int64_t>();
  const auto tensor = arguments.take<int64_t>();
  const auto scale = arguments.take<double>();
  stack[0] = from(operators::encode(own.codec, gradient, states, options, {seed, step, tensor, scale}));
}

template <size_t slot>
void decode(StableIValue* stack, uint64_t /*arguments*/, uint64_t /*results*/) {
  Arguments arguments(stack);
  const auto payload = arguments.take<Tensor>();
  const auto count = arguments.take<int64_t>();
  const auto options = arguments.take<std::string>();
  stack[0] = from(operators::decode(slots()[slot].codec, payload, count, options));
}

template <size_t slot>
void decodeAccumulate(StableIValue* stack, uint64_t /*arguments*/, uint64_t /*results*/) {
  Arguments arguments(stack);
  const auto payload = arguments.take<Tensor>();
  const auto output = arguments.take<Tensor>();
  const auto options = arguments.take<std::string>();
  operators::decodeAccumulate(slots()[slot].codec, payload, output, options);
}

struct Kernels {
  void (*encode)(StableIValue*, uint64_t, uint64_t);
  void (*decode)(StableIValue*, uint64_t, uint64_t);
  void (*decodeAccumulate)(StableIValue*, uint64_t, uint64_t);
};

template <size_t... slot>
constexpr std::array<Kernels, kSlots> kernelsOf(std::index_sequence<slot...> /*slots*/) {
  return {{{encode<slot>, decode<slot>, decodeAccumulate<slot>}...}};
}

constexpr std::array<Kernels, kSlots> kKernels = kernelsOf(std::make_index_sequence<kSlots>());

/// The three schemas of a codec; compll/python/wrappers/torch.py writes the same ones.
void define(StableLibrary& library, const Slot& slot) {
  std::string states;
  for (size_t i = 0; i < slot.states.size(); ++i) {
    const std::string argument = hipress::operatorArgument(slot.states[i].name);
    states += ", Tensor(s" + std::to_string(i) + "!)? " + argument + "=None";
  }
  library.def(
      (slot.codec + "_encode(Tensor gradient" + states +
       ", *, str options=\"\", SymInt seed=0, SymInt step=0, SymInt tensor=0, float scale=1.0) -> Tensor")
          .c_str());
  library.def((slot.codec + "_decode(Tensor payload, SymInt count, *, str options=\"\") -> Tensor").c_str());
  library.def(
      (slot.codec + "_decode_accumulate(Tensor payload, Tensor(a!) output, *, str options=\"\") -> ()")
          .c_str());
}

Slot describe(const std::string& codec) {
  for (const hipress::CodecDescription& description : hipress::describeCodecs()) {
    if (description.name == codec) return {codec, description.states};
  }
  throw hipress::invalidArgument("codec '" + codec + "' does not exist");
}

/// Makes the operators of a codec, if it has none yet. Throws InvalidArgument for an unknown codec.
void registerCodec(std::string codec) {
  static std::mutex mutex;
  static size_t used = 0;
  // Never destroyed: torch's registry may end before this library, and operators live as long as the process.
  static auto* definitions =
      new StableLibrary(StableLibrary::Kind::FRAGMENT, "hipress", nullptr, __FILE__, __LINE__);
  static auto* kernels = new StableLibrary(StableLibrary::Kind::IMPL, "hipress", "CPU", __FILE__, __LINE__);
  const std::lock_guard lock(mutex);
  for (size_t slot = 0; slot < used; ++slot) {
    if (slots()[slot].codec == codec) return;
  }
  if (used == kSlots)
    throw hipress::unsupported("no more than " + std::to_string(kSlots) + " codecs can have operators");
  Slot& own = slots()[used];
  own = describe(codec);
  define(*definitions, own);
  const Kernels& kernel = kKernels[used++];
  kernels->impl((codec + "_encode").c_str(), kernel.encode);
  kernels->impl((codec + "_decode").c_str(), kernel.decode);
  kernels->impl((codec + "_decode_accumulate").c_str(), kernel.decodeAccumulate);
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(hipress, library) {
  library.def("register_codec(str codec) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(hipress, CompositeExplicitAutograd, library) {
  library.impl("register_codec", TORCH_BOX(&registerCodec));
}

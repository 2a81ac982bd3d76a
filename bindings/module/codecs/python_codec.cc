// SPDX-License-Identifier: Apache-2.0
//
// Codecs whose functions are Python's (hipress.torch.python_codecs). The core calls them on its own threads,
// with addresses of its memory.
#include <pybind11/stl.h>

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bindings/module/module.h"
#include "core/codec/registry.h"
#include "core/codec/text/arguments.h"
#include "core/codec/wire/crc32c.h"
#include "core/device/stream_codec.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

/// Runs work() with the GIL. An exception of Python becomes an Error of this kind.
template <typename Work>
auto inPython(ErrorKind kind, const Work& work) {
  const py::gil_scoped_acquire gil;
  try {
    return work();
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) throw;  // Ctrl-C
    throw Error(kind, py::str(error.value()));
  }
}

py::int_ addressOf(const void* pointer) {
  return {reinterpret_cast<uintptr_t>(pointer)};
}

template <typename Pointers>
py::tuple addressesOf(const Pointers& pointers) {
  py::tuple addresses(pointers.size());
  for (size_t each = 0; each < pointers.size(); ++each) addresses[each] = addressOf(pointers[each]);
  return addresses;
}

py::tuple keyOf(const EncodeContext& context) {
  return py::make_tuple(context.seed, context.step, context.tensor, context.firstElement);
}

/// The place of a call: None for the host.
py::object placeOf(const StreamPlace* place) {
  if (place == nullptr) return py::none();
  return py::make_tuple(place->device, addressOf(place->stream));
}

class PythonCodec final : public Codec, public StreamCodec {
 public:
  /// `program` is never released: the core's threads may end after Python. `merges`: of an aggregator.
  PythonCodec(std::string name, CodecId id, py::handle program, bool merges)
      : name_(std::move(name)), id_(id), program_(program), merges_(merges) {
    signature_ = program.attr("signature").cast<std::string>();
    for (const py::handle state : program.attr("states")) states_.push_back({state.cast<std::string>(), 1});
    gradientFactor_ = merges ? 1.0f : program.attr("gradient_factor").cast<float>();
    if (!merges && program.attr("merges_otherwise").cast<bool>())
      forAggregate_ = std::make_shared<PythonCodec>(name_, id, program, true);
  }

  std::string_view name() const override { return name_; }
  std::string signature() const override { return signature_; }
  CodecId id() const override { return id_; }
  std::span<const CodecState> states() const override { return states_; }
  CodecPointer forAggregate() const override { return forAggregate_; }
  float gradientFactor() const override { return gradientFactor_; }

  size_t maxEncodedBytes(size_t count) const override {
    if (count == 0) return 0;
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = bounds_.find(count); known != bounds_.end()) return known->second;
    }
    const size_t bound = inPython(ErrorKind::kInvalidArgument,
                                  [&] { return program_.attr("bound")(count).template cast<size_t>(); });
    const std::lock_guard lock(mutex_);
    return bounds_[count] = bound;
  }

  size_t encode(std::span<const float> input, const EncodeStates& states, const EncodeContext& context,
                Bytes output) const override {
    checkEncodeArguments(*this, input, states, output);
    if (input.empty()) return 0;
    return encoded(nullptr, input, states, context, output, nullptr);
  }

  void encodeOn(const StreamPlace& place, const DeviceEncode& call) const override {
    encoded(&place, call.input, call.states, call.context, call.message, call.result);
  }

  void decodeOn(const StreamPlace& place, const DeviceDecode& call) const override {
    decoded(&place, call.payload, call.payloadBytes, call.output, call.mode, call.error);
  }

  std::string refusal(uint32_t error) const override {
    return inPython(ErrorKind::kInvalidArgument,
                    [&] { return program_.attr("refusal")(error).template cast<std::string>(); });
  }

 protected:
  void decodePayload(ConstBytes payload, std::span<float> output, DecodeMode mode, Parallel*) const override {
    decoded(nullptr, payload, nullptr, output, mode, nullptr);
  }

 private:
  size_t encoded(const StreamPlace* place, std::span<const float> input, const EncodeStates& states,
                 const EncodeContext& context, Bytes output, const uint32_t* result) const {
    return inPython(ErrorKind::kInvalidArgument, [&] {
      return program_
          .attr("encode")(placeOf(place), addressOf(input.data()), input.size(), addressesOf(states.before),
                          addressesOf(states.after), addressOf(output.data()), output.size(),
                          addressOf(result), keyOf(context), context.scale, merges_)
          .template cast<size_t>();
    });
  }

  void decoded(const StreamPlace* place, ConstBytes payload, const uint32_t* bytes, std::span<float> output,
               DecodeMode mode, const uint32_t* error) const {
    inPython(ErrorKind::kCorruptPayload, [&] {
      program_.attr("decode")(placeOf(place), addressOf(payload.data()), payload.size(), addressOf(bytes),
                              addressOf(output.data()), output.size(), mode == DecodeMode::kAccumulate,
                              addressOf(error));
    });
  }

  const std::string name_;
  const CodecId id_;
  const py::handle program_;
  const bool merges_;
  std::string signature_;
  std::vector<CodecState> states_;
  float gradientFactor_ = 1.0f;
  CodecPointer forAggregate_;
  mutable std::mutex mutex_;
  mutable std::map<size_t, size_t> bounds_;
};

/// (name, default, meaning)
using Options = std::vector<std::tuple<std::string, std::string, std::string>>;

/// Smaller numbers are those of codecs that come with HiPress. Ranks with different classes use different
/// numbers.
CodecId numberOf(const std::string& name, const std::string& fingerprint) {
  constexpr CodecId kFirst = 1024;
  const std::string text = name + " " + fingerprint;
  return kFirst + crc32c(std::as_bytes(std::span(text))) % (std::numeric_limits<CodecId>::max() - kFirst);
}

void registerPythonCodec(const std::string& name, const std::string& summary, const Options& options,
                         const std::vector<std::string>& states, py::object configure,
                         const std::string& fingerprint) {
  const CodecId id = numberOf(name, fingerprint);
  CodecDescription description{name, id, summary};
  std::vector<std::string> names;
  for (const auto& [option, usual, meaning] : options) {
    description.options.push_back({option, usual, meaning});
    names.push_back(option);
  }
  for (const std::string& state : states) description.states.push_back({state, 1});
  const py::handle kept = configure.release();  // for the life of the process, as the registry's entry
  const auto create = [=](const CodecOptions& values) -> CodecPointer {
    return inPython(ErrorKind::kInvalidArgument, [&]() -> CodecPointer {
      py::dict given;
      for (const std::string& option : names) given[py::str(option)] = values.text(option);
      return std::make_shared<PythonCodec>(name, id, kept(given).release(), false);
    });
  };
  registerCodec(std::move(description), create, fingerprint);
}

}  // namespace

void bindPythonCodec(py::module_& module) {
  module.def("register_python_codec", &registerPythonCodec, py::arg("name"), py::kw_only(),
             py::arg("summary"), py::arg("options"), py::arg("states"), py::arg("configure"),
             py::arg("fingerprint"), "Adds a codec whose functions are Python's.");
}

}  // namespace hipress::bindings

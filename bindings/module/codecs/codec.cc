// SPDX-License-Identifier: Apache-2.0
//
// Codecs, for tests, tools and measurements. Training does not use these functions.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/module/buffers.h"
#include "bindings/module/module.h"
#include "bindings/module/threads.h"
#include "core/base/error.h"
#include "core/codec/generated_codec.h"
#include "core/codec/merged_decoded.h"
#include "core/codec/registry.h"
#include "core/codec/text/codec_text.h"
#include "core/ops/cuda/cuda_codec.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

/// The states that Python passes, by name.
using StateArrays = std::map<std::string, FloatArray>;
using ByteArray = py::array_t<uint8_t, py::array::c_style>;

EncodeContext contextOf(const Codec& codec, uint64_t seed, uint64_t step, uint32_t tensor,
                        uint64_t firstElement, float scale, int threads) {
  EncodeContext context;
  context.seed = seed;
  context.step = step;
  context.tensor = tensor;
  context.firstElement = firstElement;
  context.scale = scale * codec.gradientFactor();
  context.parallel = threadsFor(threads);
  return context;
}

void checkStateNames(const Codec& codec, const StateArrays& states) {
  std::string expected;
  for (const CodecState& state : codec.states()) expected += (expected.empty() ? "" : ", ") + state.name;
  const bool same =
      states.size() == codec.states().size() &&
      std::ranges::all_of(codec.states(), [&](const auto& state) { return states.contains(state.name); });
  if (same) return;
  std::string given;
  for (const auto& [name, array] : states) given += (given.empty() ? "" : ", ") + name;
  throw invalidArgument("codec " + std::string(codec.name()) + ": states [" + given + "] were passed, but " +
                        codec.signature() + " keeps " + (expected.empty() ? "none" : "[" + expected + "]"));
}

void checkStateSize(const Codec& codec, const CodecState& state, size_t count, size_t stateSize) {
  if (stateSize == state.count(count)) return;
  std::string wanted;
  if (state.block != 1) {
    wanted = "; '" + state.name + "' has one for each " + std::to_string(state.block) +
             " of them: " + std::to_string(state.count(count));
  }
  throw invalidArgument("codec " + std::string(codec.name()) + ": a state has " + std::to_string(stateSize) +
                        " elements, the input " + std::to_string(count) + wanted);
}

/// The codec refuses a list with more states than it keeps.
const CodecState& stateNumber(const Codec& codec, size_t number) {
  static const CodecState whole;
  return number < codec.states().size() ? codec.states()[number] : whole;
}

py::bytes encode(const Codec& codec, const FloatArray& input, std::optional<StateArrays> states,
                 uint64_t seed, uint64_t step, uint32_t tensor, uint64_t firstElement, float scale,
                 int threads) {
  const auto values = readable(input);
  const EncodeContext context = contextOf(codec, seed, step, tensor, firstElement, scale, threads);
  std::vector<std::span<float>> kept;
  if (states) {
    checkStateNames(codec, *states);
    for (const CodecState& state : codec.states()) {
      kept.push_back(writable(states->at(state.name)));
      checkStateSize(codec, state, values.size(), kept.back().size());
    }
  }
  std::vector<std::byte> output(codec.maxEncodedBytes(values.size()));
  size_t size = 0;
  {
    const py::gil_scoped_release release;
    std::vector<std::vector<float>> written;
    for (const std::span<float> state : kept) written.emplace_back(state.size());
    std::vector<const float*> before;
    std::vector<float*> after;
    for (size_t state = 0; state < kept.size(); ++state) {
      before.push_back(kept[state].data());
      after.push_back(written[state].data());
    }
    size = codec.encode(values, {before, after}, context, output);
    for (size_t state = 0; size > 0 && state < kept.size(); ++state) {
      std::ranges::copy(written[state], kept[state].begin());
    }
  }
  return {reinterpret_cast<const char*>(output.data()), size};
}

size_t encodeInto(const Codec& codec, const FloatArray& input, const std::vector<FloatArray>& before,
                  std::vector<FloatArray> after, ByteArray& output, uint64_t seed, uint64_t step,
                  uint32_t tensor, uint64_t firstElement, float scale, int threads) {
  const auto values = readable(input);
  const EncodeContext context = contextOf(codec, seed, step, tensor, firstElement, scale, threads);
  std::vector<const float*> read;
  std::vector<float*> written;
  for (const FloatArray& state : before) {
    const auto floats = readable(state);
    checkStateSize(codec, stateNumber(codec, read.size()), values.size(), floats.size());
    read.push_back(floats.data());
  }
  for (FloatArray& state : after) {
    const auto floats = writable(state);
    checkStateSize(codec, stateNumber(codec, written.size()), values.size(), floats.size());
    written.push_back(floats.data());
  }
  if (!output.writeable()) throw invalidArgument("the output is read-only");
  const Bytes bytes(reinterpret_cast<std::byte*>(output.mutable_data()), static_cast<size_t>(output.size()));
  const py::gil_scoped_release release;
  return codec.encode(values, {read, written}, context, bytes);
}

void decodeInto(const Codec& codec, const py::object& payload, FloatArray& output, bool accumulate,
                int threads) {
  const BytesView view(payload);
  const auto values = writable(output);
  Parallel* parallel = threadsFor(threads);
  const py::gil_scoped_release release;
  codec.decode(view.bytes(), values, accumulate ? DecodeMode::kAccumulate : DecodeMode::kAssign, parallel);
}

FloatArray decode(const Codec& codec, const py::object& payload, size_t count, int threads) {
  FloatArray output(static_cast<py::ssize_t>(count));
  decodeInto(codec, payload, output, false, threads);
  return output;
}

py::tuple namesOf(std::span<const CodecState> states) {
  py::tuple names(states.size());
  for (size_t state = 0; state < states.size(); ++state) names[state] = py::str(states[state].name);
  return names;
}

py::tuple statesOf(const Codec& codec) {
  return namesOf(codec.states());
}

/// How many elements share a value of the state.
size_t stateBlock(const Codec& codec, const std::string& name) {
  const auto state = std::ranges::find(codec.states(), name, &CodecState::name);
  if (state == codec.states().end())
    throw invalidArgument("codec " + codec.signature() + " keeps no state '" + name + "'");
  return state->block;
}

std::shared_ptr<Codec> shared(const CodecPointer& codec) {
  return std::const_pointer_cast<Codec>(codec);  // Python can call only const functions of it
}

/// (rank, min_ratio, error_feedback, warm_start); None for a codec that encodes.
py::object lowRankOf(const Codec& codec) {
  const LowRank* lowRank = codec.lowRank();
  if (lowRank == nullptr) return py::none();
  return py::make_tuple(lowRank->rank, lowRank->minRatio, lowRank->errorFeedback, lowRank->warmStart);
}

/// (agreement, greatest level, most ranks), None for a codec whose encoded values ranks do not add.
py::object summedOf(const Codec& codec) {
  const SummedEncoding* summed = codec.summed();
  if (summed == nullptr) return py::none();
  constexpr const char* reductions[] = {"max", "min", "sum"};
  return py::make_tuple(reductions[static_cast<size_t>(summed->reduction())], summed->mostLevel(),
                        summed->mostRanks());
}

size_t statisticsCount(const Codec& codec, size_t count) {
  if (codec.summed() == nullptr)
    throw unsupported("codec " + std::string(codec.name()) + " has no statistics on which ranks agree");
  return codec.summed()->statisticsBytes(count) / sizeof(float);
}

py::list describe(bool encode) {
  py::list result;
  for (const CodecDescription& codec : describeCodecs(encode)) {
    py::list options;
    for (const CodecOption& option : codec.options) {
      options.append(py::dict(py::arg("name") = option.name, py::arg("default") = option.defaultValue,
                              py::arg("meaning") = option.meaning));
    }
    result.append(py::dict(py::arg("name") = codec.name, py::arg("id") = codec.id,
                           py::arg("summary") = codec.summary, py::arg("options") = options,
                           py::arg("states") = namesOf(codec.states)));
  }
  return result;
}

std::vector<double> parametersOf(const Codec& codec) {
  const auto* generated = dynamic_cast<const GeneratedCodec*>(&codec);
  return generated == nullptr ? std::vector<double>() : generated->parameters();
}

}  // namespace

void bindCodec(py::module_& module) {
  py::class_<Codec, std::shared_ptr<Codec>>(module, "Codec", "A configured codec; immutable, thread-safe.")
      .def_property_readonly("name", &Codec::name)
      .def_property_readonly("signature", &Codec::signature, "The name and all options, which ranks compare.")
      .def_property_readonly("id", &Codec::id, "The codec's number in messages.")
      .def_property_readonly("states", &statesOf,
                             "Names of the states: vectors that encode keeps from step to step.")
      .def("state_block", &stateBlock, py::arg("state"), "How many elements share a value of the state.")
      .def_property_readonly(
          "low_rank", &lowRankOf,
          "For a codec without encoding: (rank, min_ratio, error_feedback, warm_start); else None.")
      .def_property_readonly("summed", &summedOf,
                             "For a codec whose encoded values ranks add: (combination of the statistics, "
                             "greatest level, most ranks); else None.")
      .def_property_readonly("gradient_factor", &Codec::gradientFactor,
                             "The factor of gradients that the codec encodes; 1 for merged values.")
      .def_property_readonly(
          "merges_decoded", [](const Codec& codec) { return mergesDecoded(codec); },
          "Whether an aggregator encodes and decodes its own contribution before it merges it.")
      .def("statistics_count", &statisticsCount, py::arg("count"),
           "The number of statistics of such a codec for `count` elements.")
      .def_property_readonly(
          "kernels",
          [](const Codec& codec) -> std::optional<std::string> {
            const cuda::CudaCodec* table = codec.kernels();
            if (table == nullptr) return std::nullopt;
            return table->kernels;
          },
          "The text of its kernels for GPUs, which NVRTC compiles; None: it has no kernels.")
      .def_property_readonly("parameters", &parametersOf,
                             "The values of its program's parameters, for its functions on GPUs.")
      .def(
          "for_aggregate",
          [](const std::shared_ptr<Codec>& codec) {
            const CodecPointer other = codec->forAggregate();
            return other == nullptr ? codec : shared(other);
          },
          "The codec with which an aggregator encodes merged values; often this codec.")
      .def("max_encoded_bytes", &Codec::maxEncodedBytes, py::arg("count"))
      .def("encode", &encode, py::arg("input").noconvert(), py::arg("states").noconvert() = py::none(),
           py::kw_only(), py::arg("seed") = 0, py::arg("step") = 0, py::arg("tensor") = 0,
           py::arg("first_element") = 0, py::arg("scale") = 1.0f, py::arg("threads") = 1,
           "The payload of scale*gradient_factor*input. Updates the states in place, unless the payload is "
           "empty.")
      .def("encode_into", &encodeInto, py::arg("input").noconvert(), py::arg("before").noconvert(),
           py::arg("after").noconvert(), py::arg("output").noconvert(), py::kw_only(), py::arg("seed") = 0,
           py::arg("step") = 0, py::arg("tensor") = 0, py::arg("first_element") = 0, py::arg("scale") = 1.0f,
           py::arg("threads") = 1, "Returns the number of bytes written to `output`. Copies nothing.")
      .def("decode", &decode, py::arg("payload"), py::arg("count"), py::kw_only(), py::arg("threads") = 1)
      .def("decode_into", &decodeInto, py::arg("payload"), py::arg("output").noconvert(), py::kw_only(),
           py::arg("accumulate") = false, py::arg("threads") = 1)
      .def("__repr__", [](const Codec& codec) { return "<hipress codec " + codec.signature() + ">"; });
  module.def(
      "create_codec", [](const std::string& text) { return shared(createCodec(text)); }, py::arg("text"),
      "Makes a codec from `name` or `name(option=value, ...)`.");
  module.def(
      "parse_codec_text",
      [](const std::string& text) {
        CodecText parsed = parseCodecText(text);
        return std::pair(std::move(parsed.name), std::move(parsed.options));
      },
      py::arg("text"), "The name in a codec's text, and its options as they are written there.");
  module.def("describe_codecs", &describe, py::arg("encode") = true,
             "Name, number, summary, options and states of every codec that encodes, or of the others.");
  module.def("load_codec_library", &loadCodecLibrary, py::arg("path"),
             py::call_guard<py::gil_scoped_release>(),
             "Adds the codec of a shared library and returns its name.");
}

}  // namespace hipress::bindings

// SPDX-License-Identifier: Apache-2.0
//
// Codecs, the wire header and the element kernels, for tests and tools. Training does not pass through here.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "bindings/module/buffers.h"
#include "bindings/module/module.h"
#include "core/codec/crc32c.h"
#include "core/codec/registry.h"
#include "core/codec/wire_header.h"
#include "core/element/convert.h"
#include "core/element/multiversion.h"
#include "core/element/reduce.h"
#include "core/error.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

DType dtypeFromName(const std::string& name) {
  for (int number = 0; number < kDTypeCount; ++number) {
    if (dtypeName(static_cast<DType>(number)) == name) return static_cast<DType>(number);
  }
  throw invalidArgument("dtype '" + name + "' does not exist");
}

py::bytes encode(const Codec& codec, const FloatArray& input, std::optional<FloatArray>& residual,
                 uint64_t seed, uint64_t step, uint32_t tensor, uint64_t firstElement, float scale) {
  const auto values = readable(input);
  const auto held = residual ? writable(*residual) : std::span<float>{};
  const EncodeContext context{seed, step, tensor, firstElement, scale};
  std::vector<std::byte> output(codec.maxEncodedBytes(values.size()));
  size_t size = 0;
  {
    const py::gil_scoped_release release;
    size = codec.encode(values, held, context, output);
  }
  return {reinterpret_cast<const char*>(output.data()), size};
}

void decodeInto(const Codec& codec, const py::object& payload, FloatArray& output, bool accumulate) {
  const BytesView view(payload);
  const auto values = writable(output);
  const py::gil_scoped_release release;
  codec.decode(view.bytes(), values, accumulate ? DecodeMode::kAccumulate : DecodeMode::kAssign);
}

FloatArray decode(const Codec& codec, const py::object& payload, size_t count) {
  FloatArray output(static_cast<py::ssize_t>(count));
  decodeInto(codec, payload, output, false);
  return output;
}

py::list describe() {
  py::list result;
  for (const CodecDescription& codec : describeCodecs()) {
    py::list options;
    for (const CodecOption& option : codec.options) {
      options.append(py::dict(py::arg("name") = option.name, py::arg("default") = option.defaultValue,
                              py::arg("meaning") = option.meaning));
    }
    result.append(py::dict(py::arg("name") = codec.name, py::arg("summary") = codec.summary,
                           py::arg("options") = options));
  }
  return result;
}

py::bytes pack(CodecId codec, const std::string& dtype, uint64_t elementCount, uint64_t payloadBytes,
               uint8_t flags, uint32_t checksum) {
  WireHeader header;
  header.flags = flags;
  header.codec = codec;
  header.elementCount = elementCount;
  header.payloadBytes = payloadBytes;
  header.checksum = checksum;
  header.dtype = dtypeFromName(dtype);
  const WireHeaderBytes bytes = packHeader(header);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

WireHeader unpack(const py::object& object, CodecId codec, const std::string& dtype, uint64_t elementCount,
                  uint64_t maxPayloadBytes) {
  const BytesView view(object);
  if (view.bytes().size() != kWireHeaderBytes) {
    throw invalidArgument("a wire header has 32 bytes, not " + std::to_string(view.bytes().size()));
  }
  WireHeaderBytes bytes;
  std::ranges::copy(view.bytes(), bytes.begin());
  return unpackHeader(bytes, {codec, dtypeFromName(dtype), elementCount, maxPayloadBytes});
}

py::array reduce(const std::vector<py::array>& arrays, const std::string& dtypeText, double factor,
                 std::optional<py::array> output) {
  const DType dtype = dtypeFromName(dtypeText);
  if (!output) {
    if (arrays.empty()) throw invalidArgument("reduce_in_order: no contributions; at least one is needed");
    output = py::array(arrays.front().dtype(), arrays.front().size());
  }
  const auto check = [&](const py::array& array) {
    if (static_cast<size_t>(array.itemsize()) != elementSize(dtype) || array.size() != output->size() ||
        (array.flags() & py::array::c_style) == 0) {
      throw invalidArgument("reduce_in_order: all arrays must be contiguous " + dtypeText + " of one size");
    }
  };
  std::vector<const void*> contributions;
  for (const py::array& array : arrays) {
    check(array);
    contributions.push_back(array.data());
  }
  check(*output);
  void* destination = output->mutable_data();
  const auto count = static_cast<size_t>(output->size());
  {
    const py::gil_scoped_release release;
    reduceInOrder(dtype, contributions, count, factor, destination);
  }
  return *output;
}

FloatArray widenArray(const py::object& source, const std::string& dtypeText) {
  const BytesView view(source);
  const DType dtype = dtypeFromName(dtypeText);
  FloatArray output(static_cast<py::ssize_t>(view.bytes().size() / elementSize(dtype)));
  widen(view.bytes().data(), dtype, writable(output));
  return output;
}

py::bytes narrowArray(const FloatArray& input, const std::string& dtypeText) {
  const DType dtype = dtypeFromName(dtypeText);
  std::vector<std::byte> output(static_cast<size_t>(input.size()) * elementSize(dtype));
  narrow(readable(input), dtype, output.data());
  return {reinterpret_cast<const char*>(output.data()), output.size()};
}

void bindCodecClass(py::module_& module) {
  py::class_<Codec, std::shared_ptr<Codec>>(module, "Codec", "A configured codec; immutable, thread-safe.")
      .def_property_readonly("name", &Codec::name)
      .def_property_readonly("signature", &Codec::signature, "Name and every option: what ranks compare.")
      .def_property_readonly("id", &Codec::id, "Number on the wire.")
      .def_property_readonly("uses_residual", &Codec::usesResidual)
      .def("max_encoded_bytes", &Codec::maxEncodedBytes, py::arg("count"))
      .def("encode", &encode, py::arg("input").noconvert(), py::arg("residual").noconvert() = py::none(),
           py::kw_only(), py::arg("seed") = 0, py::arg("step") = 0, py::arg("tensor") = 0,
           py::arg("first_element") = 0, py::arg("scale") = 1.0f,
           "The payload of scale*input + residual; `residual` is updated in place.")
      .def("decode", &decode, py::arg("payload"), py::arg("count"))
      .def("decode_into", &decodeInto, py::arg("payload"), py::arg("output").noconvert(), py::kw_only(),
           py::arg("accumulate") = false)
      .def("__repr__", [](const Codec& codec) { return "<hipress codec " + codec.signature() + ">"; });
  module.def(
      "create_codec",
      [](const std::string& text) { return std::const_pointer_cast<Codec>(createCodec(text)); },
      py::arg("text"), "From `name` or `name(option=value, ...)`.");
  module.def("describe_codecs", &describe, "Name, summary and options of every codec, sorted by name.");
}

void bindWireHeader(py::module_& module) {
  py::class_<WireHeader>(module, "WireHeader")
      .def_readonly("version", &WireHeader::version)
      .def_readonly("flags", &WireHeader::flags)
      .def_readonly("codec", &WireHeader::codec)
      .def_readonly("element_count", &WireHeader::elementCount)
      .def_readonly("payload_bytes", &WireHeader::payloadBytes)
      .def_readonly("checksum", &WireHeader::checksum)
      .def_property_readonly("dtype", [](const WireHeader& header) { return dtypeName(header.dtype); });
  module.attr("FLAG_RAW") = static_cast<int>(kFlagRaw);
  module.attr("FLAG_ABSENT") = static_cast<int>(kFlagAbsent);
  module.attr("FLAG_CHECKSUM") = static_cast<int>(kFlagChecksum);
  module.def("pack_header", &pack, py::arg("codec"), py::arg("dtype"), py::arg("element_count"),
             py::arg("payload_bytes"), py::arg("flags") = 0, py::arg("checksum") = 0);
  module.def("unpack_header", &unpack, py::arg("header"), py::arg("codec"), py::arg("dtype"),
             py::arg("element_count"), py::arg("max_payload_bytes"),
             "Checks every field against what was agreed; raises CorruptPayload.");
  module.def(
      "verify_checksum",
      [](const WireHeader& header, const py::object& payload) {
        verifyChecksum(header, BytesView(payload).bytes());
      },
      py::arg("header"), py::arg("payload"));
  module.def(
      "crc32c", [](const py::object& data) { return crc32c(BytesView(data).bytes()); }, py::arg("data"));
}

void bindElements(py::module_& module) {
  module.def("reduce_in_order", &reduce, py::arg("arrays"), py::arg("dtype"), py::arg("factor") = 1.0,
             py::arg("out") = py::none(), "(((a0 + a1) + a2) + ...) * factor, as the raw merge does it.");
  module.def("widen", &widenArray, py::arg("source"), py::arg("dtype"), "Bytes of `dtype` as float32.");
  module.def("narrow", &narrowArray, py::arg("input").noconvert(), py::arg("dtype"),
             "float32 rounded to `dtype`, as bytes.");
  module.def("isa_level", [] { return isaLevelName(isaLevel()); });
  module.def(
      "set_isa_level", [](const std::string& name) { setIsaLevel(isaLevelFromName(name)); }, py::arg("name"));
  module.def("isa_levels", [] {
    std::vector<std::string> names;
    for (const IsaLevel level : {IsaLevel::kGeneric, IsaLevel::kV2, IsaLevel::kV3, IsaLevel::kV4}) {
      if (level <= bestIsaLevel()) names.emplace_back(isaLevelName(level));
    }
    return names;
  });
}

}  // namespace

void bindCodec(py::module_& module) {
  bindCodecClass(module);
  bindWireHeader(module);
  bindElements(module);
}

}  // namespace hipress::bindings

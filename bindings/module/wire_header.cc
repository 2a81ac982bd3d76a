// SPDX-License-Identifier: Apache-2.0
//
// The wire header, its checksum, and bundles of messages, for tests and tools.
#include "core/codec/wire/wire_header.h"

#include <algorithm>
#include <string>
#include <vector>

#include "bindings/module/buffers.h"
#include "bindings/module/kind_names.h"
#include "bindings/module/module.h"
#include "core/base/error.h"
#include "core/codec/wire/crc32c.h"
#include "core/transport/bundle.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

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
                  uint64_t maxPayloadBytes, bool trimmed, bool mayPack) {
  const BytesView view(object);
  if (view.bytes().size() != kWireHeaderBytes) {
    throw invalidArgument("a wire header has 32 bytes, not " + std::to_string(view.bytes().size()));
  }
  WireHeaderBytes bytes;
  std::ranges::copy(view.bytes(), bytes.begin());
  return unpackHeader(bytes,
                      {codec, dtypeFromName(dtype), elementCount, maxPayloadBytes, false, trimmed, mayPack});
}

py::bytes asBytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Each message: ((tensor, step, partition, hop), header, payload).
py::bytes packedBundle(const py::list& messages) {
  std::vector<MessageView> views;
  for (const auto& each : messages) {
    const auto message = each.cast<py::tuple>();
    const auto tag = message[0].cast<py::tuple>();
    MessageView view;
    view.tag = {tag[0].cast<uint32_t>(), tag[1].cast<uint32_t>(), tag[2].cast<uint16_t>(),
                tag[3].cast<uint16_t>()};
    const auto header = BytesView(message[1]).bytes();
    if (header.size() != view.header.size()) throw invalidArgument("a message's header has 32 bytes");
    std::ranges::copy(header, view.header.begin());
    view.payload = BytesView(message[2]).bytes();  // `messages` keeps the bytes alive
    views.push_back(view);
  }
  std::vector<std::byte> payload;
  const MessageHeader header = packBundle(views, payload);
  payload.insert(payload.begin(), header.begin(), header.end());
  return asBytes(payload);
}

py::list messagesOf(const py::object& object) {
  const BytesView view(object);
  const auto bytes = view.bytes();
  if (bytes.size() < kMessageHeaderBytes) throw corruptPayload("a bundle has at least its header");
  MessageHeader header;
  std::ranges::copy(bytes.first(kMessageHeaderBytes), header.begin());
  std::vector<MessageView> messages;
  splitBundle(header, bytes.subspan(kMessageHeaderBytes), messages);
  py::list result;
  for (const auto& [tag, own, payload] : messages) {
    result.append(py::make_tuple(py::make_tuple(tag.tensor, tag.step, tag.partition, tag.hop), asBytes(own),
                                 asBytes(payload)));
  }
  return result;
}

}  // namespace

void bindWireHeader(py::module_& module) {
  py::class_<WireHeader>(module, "WireHeader")
      .def_readonly("version", &WireHeader::version)
      .def_readonly("flags", &WireHeader::flags)
      .def_readonly("codec", &WireHeader::codec)
      .def_readonly("element_count", &WireHeader::elementCount)
      .def_readonly("payload_bytes", &WireHeader::payloadBytes)
      .def_readonly("checksum", &WireHeader::checksum)
      .def_readonly("updates", &WireHeader::updates)
      .def_property_readonly("dtype", [](const WireHeader& header) { return dtypeName(header.dtype); });
  module.attr("WIRE_VERSION") = static_cast<int>(kWireVersion);
  module.attr("FLAG_RAW") = static_cast<int>(kFlagRaw);
  module.attr("FLAG_ABSENT") = static_cast<int>(kFlagAbsent);
  module.attr("FLAG_CHECKSUM") = static_cast<int>(kFlagChecksum);
  module.attr("FLAG_REFERENCE") = static_cast<int>(kFlagReference);
  module.attr("FLAG_TRIMMED") = static_cast<int>(kFlagTrimmed);
  module.attr("FLAG_PACKED") = static_cast<int>(kFlagPacked);
  module.attr("FLAG_ZEROS") = static_cast<int>(kFlagZeros);
  module.attr("FLAG_NOT_FINITE") = static_cast<int>(kFlagNotFinite);
  module.def("pack_header", &pack, py::arg("codec"), py::arg("dtype"), py::arg("element_count"),
             py::arg("payload_bytes"), py::arg("flags") = 0, py::arg("checksum") = 0);
  module.def("unpack_header", &unpack, py::arg("header"), py::arg("codec"), py::arg("dtype"),
             py::arg("element_count"), py::arg("max_payload_bytes"), py::arg("trimmed") = false,
             py::arg("may_pack") = false, "Checks every field against the agreement. Raises CorruptPayload.");
  module.def("pack_bundle", &packedBundle, py::arg("messages"));
  module.def("split_bundle", &messagesOf, py::arg("bundle"), "Raises CorruptPayload unless all sizes fit.");
  module.def(
      "verify_checksum",
      [](const WireHeader& header, const py::object& payload) {
        verifyChecksum(header, BytesView(payload).bytes());
      },
      py::arg("header"), py::arg("payload"));
  module.def(
      "crc32c", [](const py::object& data) { return crc32c(BytesView(data).bytes()); }, py::arg("data"));
}

}  // namespace hipress::bindings

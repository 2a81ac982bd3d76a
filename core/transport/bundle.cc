// SPDX-License-Identifier: Apache-2.0
#include "core/transport/bundle.h"

#include <bit>
#include <cstring>
#include <string>

namespace hipress {
namespace {

static_assert(std::endian::native == std::endian::little, "bundles are little endian");

constexpr uint8_t kVersion = 1;

/// The header of the bundle itself, as large as a message's header.
struct BundleHeader {
  char magic[2] = {'H', 'B'};
  uint8_t version = kVersion;
  uint8_t flags = 0;
  uint32_t count = 0;
  uint64_t bytes = 0;
  uint64_t reserved[2] = {0, 0};
};
static_assert(sizeof(BundleHeader) == kMessageHeaderBytes);

struct PieceHead {
  MessageTag tag;
  uint32_t payloadBytes = 0;
  MessageHeader header;
};
static_assert(sizeof(PieceHead) == kPieceHeadBytes);

void append(std::vector<std::byte>& bytes, const void* data, size_t count) {
  const auto* first = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), first, first + count);
}

BundleHeader checkedHeader(const MessageHeader& raw, size_t bytes) {
  BundleHeader header;
  std::memcpy(&header, raw.data(), sizeof header);
  if (header.magic[0] != 'H' || header.magic[1] != 'B') throw corruptPayload("it has no bundle header");
  if (header.version != kVersion) {
    throw corruptPayload("it has version " + std::to_string(header.version) + ", and this rank knows " +
                         std::to_string(kVersion));
  }
  if (header.flags != 0 || header.reserved[0] != 0 || header.reserved[1] != 0) {
    throw corruptPayload("a flag or a reserved byte is set");
  }
  if (header.bytes != bytes) {
    throw corruptPayload("it has " + std::to_string(bytes) + " bytes, and its header says " +
                         std::to_string(header.bytes));
  }
  if (bytes > kMaxBundleBytes) throw corruptPayload("it has " + std::to_string(bytes) + " bytes");
  if (header.count == 0 || header.count > bytes / kPieceHeadBytes) {
    throw corruptPayload("it cannot hold " + std::to_string(header.count) + " messages");
  }
  return header;
}

Error corruptPiece(uint32_t index, const char* what) {
  return corruptPayload("message " + std::to_string(index) + " " + what);
}

}  // namespace

MessageHeader packBundle(std::span<const MessageView> messages, std::vector<std::byte>& bytes) {
  BundleHeader header;
  header.count = static_cast<uint32_t>(messages.size());
  for (const auto& message : messages) header.bytes += kPieceHeadBytes + message.payload.size();
  if (messages.empty() || header.bytes > kMaxBundleBytes) {
    throw invalidArgument("a bundle has at least one message and at most " + std::to_string(kMaxBundleBytes) +
                          " bytes, not " + std::to_string(header.bytes));
  }
  bytes.clear();
  bytes.reserve(header.bytes);
  for (const auto& message : messages) {
    const PieceHead head{message.tag, static_cast<uint32_t>(message.payload.size()), message.header};
    append(bytes, &head, sizeof head);
    append(bytes, message.payload.data(), message.payload.size());
  }
  MessageHeader raw;
  std::memcpy(raw.data(), &header, sizeof header);
  return raw;
}

void splitBundle(const MessageHeader& raw, std::span<const std::byte> bytes,
                 std::vector<MessageView>& messages) {
  const BundleHeader header = checkedHeader(raw, bytes.size());
  messages.clear();
  messages.reserve(header.count);
  for (uint32_t index = 0; index < header.count; ++index) {
    if (bytes.size() < kPieceHeadBytes) throw corruptPiece(index, "is cut off");
    PieceHead head;
    std::memcpy(&head, bytes.data(), sizeof head);
    bytes = bytes.subspan(sizeof head);
    if (head.payloadBytes > bytes.size()) throw corruptPiece(index, "is longer than the bundle");
    if (head.tag == kBundleTag) throw corruptPiece(index, "is a bundle itself");
    messages.push_back({head.tag, head.header, bytes.first(head.payloadBytes)});
    bytes = bytes.subspan(head.payloadBytes);
  }
  if (!bytes.empty()) {
    throw corruptPayload(std::to_string(bytes.size()) + " bytes follow its last message");
  }
}

Error refusedBundle(int receiver, int sender, const Error& reason) {
  return {reason.kind(), "rank " + std::to_string(receiver) + ": a bundle of messages from rank " +
                             std::to_string(sender) + " was refused: " + reason.what() +
                             "; check the network and that all ranks run the same version"};
}

}  // namespace hipress

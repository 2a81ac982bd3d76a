// SPDX-License-Identifier: Apache-2.0
//
// A bundle: several messages that travel as one, so that they share the fixed costs of a message.
// docs/wire-format.md has the layout.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/transport/transport.h"

namespace hipress {

/// The tag of a bundle. No tensor has this number.
inline constexpr MessageTag kBundleTag{0xffffffff, 0xffffffff, 0xffff, 0xffff};

/// Bytes before each message of a bundle: tag, payload size, header.
inline constexpr size_t kPieceHeadBytes = 16 + kMessageHeaderBytes;

/// A receiver rejects larger bundles: it needs memory for a bundle before it can check the contents.
inline constexpr size_t kMaxBundleBytes = size_t{16} << 20;

/// Writes messages, in their order, into `bytes`, whose capacity serves again. Returns the bundle's header.
MessageHeader packBundle(std::span<const MessageView> messages, std::vector<std::byte>& bytes);

/// Fills `messages` with the messages of a bundle; the payloads stay in `bytes`. Throws CorruptPayload if a
/// size in the bundle does not fit; the caller then uses no message of the bundle.
void splitBundle(const MessageHeader& header, std::span<const std::byte> bytes,
                 std::vector<MessageView>& messages);

/// The error of all receives of a link after a rejected bundle, because its messages are unknown.
Error refusedBundle(int receiver, int sender, const Error& reason);

}  // namespace hipress

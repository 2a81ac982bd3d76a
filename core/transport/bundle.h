// SPDX-License-Identifier: Apache-2.0
//
// Several messages as the bytes of one, so that the costs that a message of any size has are paid once. The
// layout is in docs/wire-format.md.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/transport/transport.h"

namespace hipress {

/// Names a bundle where other messages have their tag; no tensor has this number.
inline constexpr MessageTag kBundleTag{0xffffffff, 0xffffffff, 0xffff, 0xffff};

/// In front of each message of a bundle: tag, payload's size, header.
inline constexpr size_t kPieceHeadBytes = 16 + kMessageHeaderBytes;

/// Receivers refuse larger ones: they need memory for some before they can look inside.
inline constexpr size_t kMaxBundleBytes = size_t{16} << 20;

/// Puts messages, in their order, into `bytes`, whose memory is used again; returns the bundle's own header.
MessageHeader packBundle(std::span<const MessageView> messages, std::vector<std::byte>& bytes);

/// Puts the messages of a bundle into `messages`; their payloads lie in `bytes`. Throws CorruptPayload, and
/// nothing of the bundle is to be used, unless every size in it fits.
void splitBundle(const MessageHeader& header, std::span<const std::byte> bytes,
                 std::vector<MessageView>& messages);

/// The error of all receives of a link after one of its bundles was refused: its messages are not known.
Error refusedBundle(int receiver, int sender, const Error& reason);

}  // namespace hipress

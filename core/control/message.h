// SPDX-License-Identifier: Apache-2.0
//
// The bytes of the control connection. A frame is: u32 length of the payload, u8 type, payload. Integers are
// little endian; a text is a u32 length and its bytes. Reading checks every bound: what does not fit throws
// Malformed, and the connection it came on is dropped.
//
// client -> server                              server -> client
//   HELLO      magic, version, token, rank, ...   WELCOME  u32 world size
//   ALLGATHER  u64 call, key, value, u64 timeout  REFUSED  u8 error, text
//   DECLARE    u64 call, name, text, u8           VALUE    u64 call, text
//   ROUND      u64 call, u32 count, links         REPLY    u64 call, u8 error or 0, text, u32 number
//   ABORT      u64 call, u8 error, text
//   LEAVE      u64 call, u64 linger               NOTICE   u8 kind, i32 rank, u32 tensor, u8 error, text
//   BEAT       nothing                            BEAT     nothing
//
// A link is i32 peer, i32 priority, u64 bytes. The number in a reply is that of the tensor that was declared,
// or of the peer that the next round is for.
//
// The values of an allgather travel as one VALUE each before the REPLY: so no frame is larger than one value
// allows, however many ranks there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "core/control/request.h"

namespace hipress::control {

inline constexpr uint32_t kMagic = 0x43505248;  // "HRPC"
inline constexpr uint16_t kProtocolVersion = 3;
inline constexpr size_t kFrameHeader = 5;
inline constexpr size_t kMaxFrame = kMaxValue + 4 * kMaxText;  ///< The largest payload: a value and texts.
inline constexpr size_t kMaxHandshakeFrame = 4096;             ///< What a stranger may make rank 0 keep.

enum class FrameType : uint8_t {
  kHello = 1,
  kAllgather,
  kDeclare,
  kAbort,
  kLeave,
  kRound,
  kWelcome = 64,
  kRefused,
  kValue,
  kReply,
  kNotice,
  kBeat = 128,
};

struct Frame {
  FrameType type;
  std::string payload;
};

class Malformed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Hello {
  uint16_t version = kProtocolVersion;
  std::string token;
  int32_t rank = 0;
  int32_t worldSize = 0;
  std::string host;
  int64_t pid = 0;
};

/// A reply is sent as this, so that values are shared between the frames for all ranks: the bytes of `head`,
/// then those of `body`, if there are any.
struct FrameBytes {
  std::string head;
  SharedValue body;
};

std::string encodeHello(const Hello& hello);
/// If the version is not ours, only `version` is meaningful.
Hello decodeHello(std::string_view payload);

std::string encodeWelcome(int worldSize);
std::string encodeRefused(const Failure& failure);
Failure decodeRefused(std::string_view payload);

std::string encodeRequest(uint64_t call, const Request& request);
std::pair<uint64_t, Request> decodeRequest(const Frame& frame);

FrameBytes encodeValue(uint64_t call, SharedValue value);
std::pair<uint64_t, std::string> decodeValue(std::string_view payload);

/// Without its values.
std::string encodeReply(const Reply& reply);
Reply decodeReply(std::string_view payload);

/// Says nothing: it is sent so that the other host acknowledges it.
std::string encodeBeat();

std::string encodeNotice(const ControlNotice& notice);
ControlNotice decodeNotice(std::string_view payload);

}  // namespace hipress::control

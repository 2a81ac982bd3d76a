// SPDX-License-Identifier: Apache-2.0
//
// The bytes of the control connection. A frame is: u32 length of the payload, u8 type, payload. Integers are
// little endian. A text is a u32 length and its bytes. The reader checks every bound, throws Malformed for
// bytes that do not fit, and the owner drops the connection.
//
// client -> server                              server -> client
//   HELLO      magic, version, rank, ..., nonce   CHALLENGE  nonce
//   PROOF      the rank's proof                   WELCOME  u32 world size, rank 0's proof
//   ALLGATHER  u64 call, key, value,              REFUSED  u8 error, text
//              u64 timeout, u8 apart, set
//   DECLARE    u64 call, u32 count,               VALUE    u64 call, text
//              count × (name, text, u8), set      REPLY    u64 call, u8 error or 0, text, u32 count,
//   ASK        u64 call, service, question                 count × u32 number
//   ABORT      u64 call, u8 error, text
//   LEAVE      u64 call, u64 linger, text         NOTICE   u8 kind, i32 rank, u32 tensor, u8 error, text,
//   JOIN       u64 call                                    u32 step
//   DEMAND     u64 call, i32 rank, u32 tensor,
//              u32 step, text, u8 excuse
//   BEAT       nothing                            BEAT     nothing
//
// A set is a u32 count and the i32 ranks of a process set; none: all ranks. The numbers in a reply are those
// of the declared tensors, the answer to a question, or the end of a round of joins.
//
// Each value of an allgather travels as a VALUE before the REPLY. So the largest frame has one value, for any
// number of ranks. Of an all-to-all (`apart`) each rank gets one VALUE, with the parts of all ranks for it.
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
inline constexpr uint16_t kProtocolVersion = 8;
inline constexpr size_t kFrameHeader = 5;
inline constexpr size_t kMaxFrame = kMaxValue + 4 * kMaxText;  ///< The largest payload: a value and texts.
inline constexpr size_t kMaxHandshakeFrame = 4096;             ///< Rank 0 keeps no more bytes of a stranger.

enum class FrameType : uint8_t {
  kHello = 1,
  kAllgather,
  kDeclare,
  kAbort,
  kLeave,
  kAsk,
  kProof,
  kJoin,
  kDemand,
  kWelcome = 64,
  kRefused,
  kValue,
  kReply,
  kNotice,
  kChallenge,
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
  int32_t rank = 0;
  int32_t worldSize = 0;
  std::string host;
  int64_t pid = 0;
  std::string nonce;
};

struct Welcome {
  int32_t worldSize = 0;
  std::string proof;  ///< proofOfServer()
};

/// The bytes of a frame: `head`, then `body` if it has bytes. The frames for all ranks share one
/// `body`.
struct FrameBytes {
  std::string head;
  SharedValue body;
};

std::string encodeHello(const Hello& hello);
/// If the version is not ours, only `version` has a meaning.
Hello decodeHello(std::string_view payload);

/// The text of a CHALLENGE is a nonce, and of a PROOF the result of proofOfRank().
std::string encodeText(FrameType type, std::string_view text);
std::string decodeText(std::string_view payload);

std::string encodeWelcome(const Welcome& welcome);
Welcome decodeWelcome(std::string_view payload);
std::string encodeRefused(const Failure& failure);
Failure decodeRefused(std::string_view payload);

std::string encodeRequest(uint64_t call, const Request& request);
std::pair<uint64_t, Request> decodeRequest(const Frame& frame);

FrameBytes encodeValue(uint64_t call, SharedValue value);
std::pair<uint64_t, std::string> decodeValue(std::string_view payload);

/// Encodes the reply without its values.
std::string encodeReply(const Reply& reply);
Reply decodeReply(std::string_view payload);

/// Has no content: the other host acknowledges it.
std::string encodeBeat();

std::string encodeNotice(const ControlNotice& notice);
ControlNotice decodeNotice(std::string_view payload);

}  // namespace hipress::control

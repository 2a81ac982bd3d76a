// SPDX-License-Identifier: Apache-2.0
#include "core/control/message.h"

#include "core/authentication/nonce.h"
#include "core/control/wire/frame_bytes.h"

namespace hipress::control {

namespace {

uint64_t wireDuration(Milliseconds value) {
  return static_cast<uint64_t>(clampTimeout(value).count());
}

/// A message may quote two texts of users.
constexpr size_t kMaxMessage = 3 * kMaxText;

std::string_view shortened(std::string_view message) {
  return message.substr(0, kMaxMessage);
}

std::string withSet(FrameWriter& writer, const ProcessSet& among) {
  writer.number(static_cast<uint32_t>(among.size()));
  for (const int rank : among) writer.number(static_cast<int32_t>(rank));
  return writer.finish();
}

ProcessSet readSet(FrameReader& reader) {
  ProcessSet among;
  for (auto count = reader.number<uint32_t>(); count > 0; --count) among.push_back(reader.number<int32_t>());
  return among;
}

struct RequestWriter {
  uint64_t call;

  std::string operator()(const AllgatherRequest& r) const {
    FrameWriter writer(FrameType::kAllgather);
    writer.number(call).text(r.key).text(r.value).number(wireDuration(r.timeout));
    return withSet(writer.number<uint8_t>(r.apart), r.among);
  }
  std::string operator()(const DeclareRequest& r) const {
    FrameWriter writer(FrameType::kDeclare);
    writer.number(call).number(static_cast<uint32_t>(r.tensors.size()));
    for (const Declaration& tensor : r.tensors)
      writer.text(tensor.name).text(tensor.specification).number<uint8_t>(tensor.transient);
    return withSet(writer, r.among);
  }
  std::string operator()(const AskRequest& r) const {
    return FrameWriter(FrameType::kAsk).number(call).text(r.service).text(r.question).finish();
  }
  std::string operator()(const JoinRequest&) const {
    return FrameWriter(FrameType::kJoin).number(call).finish();
  }
  std::string operator()(const DemandRequest& r) const {
    FrameWriter writer(FrameType::kDemand);
    writer.number(call).number(static_cast<int32_t>(r.rank)).number(r.tensor).number(r.step);
    return writer.text(r.text).number<uint8_t>(r.excuse).finish();
  }
  std::string operator()(const AbortRequest& r) const {
    FrameWriter writer(FrameType::kAbort);
    return writer.number(call).number(static_cast<uint8_t>(r.error)).text(r.message).finish();
  }
  std::string operator()(const LeaveRequest& r) const {
    return FrameWriter(FrameType::kLeave).number(call).number(wireDuration(r.linger)).text(r.reason).finish();
  }
};

Request readRequest(FrameType type, FrameReader& reader) {
  switch (type) {
    case FrameType::kAllgather: {
      AllgatherRequest request{reader.text(kMaxText), reader.text(kMaxValue)};
      request.timeout = reader.duration();
      request.apart = reader.number<uint8_t>() != 0;
      request.among = readSet(reader);
      return request;
    }
    case FrameType::kDeclare: {
      DeclareRequest request;
      for (auto count = reader.number<uint32_t>(); count > 0; --count) {
        Declaration& tensor = request.tensors.emplace_back();
        tensor.name = reader.text(kMaxText);
        tensor.specification = reader.text(kMaxText);
        tensor.transient = reader.number<uint8_t>() != 0;
      }
      request.among = readSet(reader);
      return request;
    }
    case FrameType::kAsk:
      return AskRequest{reader.text(kMaxText), reader.text(kMaxText)};
    case FrameType::kJoin:
      return JoinRequest{};
    case FrameType::kDemand: {
      DemandRequest request;
      request.rank = reader.number<int32_t>();
      request.tensor = reader.number<uint32_t>();
      request.step = reader.number<uint32_t>();
      request.text = reader.text(kMaxText);
      request.excuse = reader.number<uint8_t>() != 0;
      return request;
    }
    case FrameType::kAbort: {
      const ErrorKind error = reader.error();
      return AbortRequest{error, reader.text(kMaxText)};
    }
    case FrameType::kLeave: {
      const Milliseconds linger = reader.duration();
      return LeaveRequest{linger, reader.text(kMaxText)};
    }
    default:
      throw Malformed("an unknown kind of message");
  }
}

}  // namespace

std::string encodeHello(const Hello& hello) {
  FrameWriter writer(FrameType::kHello);
  writer.number(kMagic).number(hello.version).number(hello.rank).number(hello.worldSize);
  return writer.text(hello.host).number(hello.pid).text(hello.nonce).finish();
}

Hello decodeHello(std::string_view payload) {
  FrameReader reader(payload);
  Hello hello;
  if (reader.number<uint32_t>() != kMagic) throw Malformed("not the start of a control connection");
  hello.version = reader.number<uint16_t>();
  if (hello.version != kProtocolVersion) return hello;
  hello.rank = reader.number<int32_t>();
  hello.worldSize = reader.number<int32_t>();
  hello.host = reader.text(kMaxHandshakeFrame);
  hello.pid = reader.number<int64_t>();
  hello.nonce = reader.text(kMaxHandshakeFrame);
  reader.end();
  if (hello.nonce.size() != kNonceBytes) throw Malformed("a nonce has another size");
  return hello;
}

std::string encodeText(FrameType type, std::string_view text) {
  return FrameWriter(type).text(text).finish();
}

std::string decodeText(std::string_view payload) {
  FrameReader reader(payload);
  std::string text = reader.text(kMaxHandshakeFrame);
  reader.end();
  return text;
}

std::string encodeWelcome(const Welcome& welcome) {
  return FrameWriter(FrameType::kWelcome).number(welcome.worldSize).text(welcome.proof).finish();
}

Welcome decodeWelcome(std::string_view payload) {
  FrameReader reader(payload);
  Welcome welcome;
  welcome.worldSize = reader.number<int32_t>();
  welcome.proof = reader.text(kMaxHandshakeFrame);
  reader.end();
  return welcome;
}

std::string encodeRefused(const Failure& failure) {
  FrameWriter writer(FrameType::kRefused);
  return writer.number(static_cast<uint8_t>(failure->kind())).text(shortened(failure->what())).finish();
}

Failure decodeRefused(std::string_view payload) {
  FrameReader reader(payload);
  const ErrorKind kind = reader.error();
  return failureOf(kind, reader.text(kMaxMessage));
}

std::string encodeRequest(uint64_t call, const Request& request) {
  return std::visit(RequestWriter{call}, request);
}

std::pair<uint64_t, Request> decodeRequest(const Frame& frame) {
  FrameReader reader(frame.payload);
  const auto call = reader.number<uint64_t>();
  Request request = readRequest(frame.type, reader);
  reader.end();
  return {call, std::move(request)};
}

FrameBytes encodeValue(uint64_t call, SharedValue value) {
  const size_t size = value->size();
  FrameWriter writer(FrameType::kValue);
  writer.number(call).number(static_cast<uint32_t>(size));
  return {writer.finish(size), std::move(value)};
}

std::pair<uint64_t, std::string> decodeValue(std::string_view payload) {
  FrameReader reader(payload);
  const auto call = reader.number<uint64_t>();
  std::string value = reader.text(kMaxValue);
  reader.end();
  return {call, std::move(value)};
}

std::string encodeReply(const Reply& reply) {
  FrameWriter writer(FrameType::kReply);
  writer.number(reply.call).number<uint8_t>(reply.failure ? static_cast<uint8_t>(reply.failure->kind()) : 0);
  writer.text(reply.failure ? shortened(reply.failure->what()) : "");
  writer.number(static_cast<uint32_t>(reply.numbers.size()));
  for (const uint32_t number : reply.numbers) writer.number(number);
  return writer.finish();
}

Reply decodeReply(std::string_view payload) {
  FrameReader reader(payload);
  Reply reply;
  reply.call = reader.number<uint64_t>();
  if (payload.size() > 8 && payload[8] != 0) {
    const ErrorKind kind = reader.error();
    reply.failure = failureOf(kind, reader.text(kMaxMessage));
  } else {
    reader.number<uint8_t>();
    reader.text(0);
  }
  for (auto count = reader.number<uint32_t>(); count > 0; --count)
    reply.numbers.push_back(reader.number<uint32_t>());
  reader.end();
  return reply;
}

std::string encodeBeat() {
  return FrameWriter(FrameType::kBeat).finish();
}

std::string encodeNotice(const ControlNotice& notice) {
  FrameWriter writer(FrameType::kNotice);
  writer.number(static_cast<uint8_t>(notice.kind))
      .number(static_cast<int32_t>(notice.rank))
      .number(notice.tensor);
  writer.number(static_cast<uint8_t>(notice.error)).text(shortened(notice.message));
  return writer.number(notice.step).finish();
}

ControlNotice decodeNotice(std::string_view payload) {
  FrameReader reader(payload);
  ControlNotice notice;
  const auto kind = reader.number<uint8_t>();
  if (kind > static_cast<uint8_t>(ControlNotice::Kind::kDemand)) throw Malformed("an unknown kind of notice");
  notice.kind = static_cast<ControlNotice::Kind>(kind);
  notice.rank = reader.number<int32_t>();
  notice.tensor = reader.number<uint32_t>();
  notice.error = reader.error();
  notice.message = reader.text(kMaxMessage);
  notice.step = reader.number<uint32_t>();
  reader.end();
  return notice;
}

}  // namespace hipress::control

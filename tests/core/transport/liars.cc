// SPDX-License-Identifier: Apache-2.0
//
// A rank that knows the token and lies: rank 0 waits for a broadcast of rank 1. Rank 1 has no engine, but a
// bare transport, and sends wrong messages. The program prints for each lie the end of rank 0's operation.
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/casync/run/engine.h"
#include "core/codec/builtin/none.h"
#include "core/codec/wire/wire_header.h"
#include "core/control/tcp/tcp_control.h"
#include "core/transport/ucx/ucx_transport.h"

namespace {

using namespace hipress;

constexpr size_t kElements = 5000;

TensorSpec weight() {
  TensorSpec spec;
  spec.name = "weight";
  spec.count = kElements;
  spec.shape = "[5000]";
  spec.options = BroadcastOptions{.root = 1, .partitions = 1};
  return spec;
}

struct Message {
  MessageTag tag;
  WireHeader header;
  size_t payloadBytes = kElements * sizeof(float);
};

Message honest(uint32_t tensor) {
  Message message;
  message.tag = {tensor, 0, 0, 0};
  message.header.flags = kFlagRaw;
  message.header.elementCount = kElements;
  message.header.payloadBytes = kElements * sizeof(float);
  return message;
}

void send(Transport& transport, const Message& message) {
  static std::vector<float> values(4 * kElements, 1.5f);
  SendRequest request;
  request.peer = 0;
  request.tag = message.tag;
  const WireHeaderBytes header = packHeader(message.header);
  std::memcpy(request.header.data(), header.data(), header.size());
  request.payload = std::as_bytes(std::span(values)).first(message.payloadBytes);
  request.onSent = [](const Failure&) {};
  transport.send(std::move(request));
}

struct Lie {
  const char* name;
  std::function<void(Transport&, uint32_t tensor)> tell;
};

std::function<void(Transport&, uint32_t)> with(const std::function<void(Message&)>& change) {
  return [change](Transport& transport, uint32_t tensor) {
    Message message = honest(tensor);
    change(message);
    send(transport, message);
  };
}

const std::vector<Lie> kLies{
    {"nothing",
     [](Transport& transport, uint32_t tensor) {
       Message message = honest(tensor);
       send(transport, message);
       // The message of hop 2: all ranks have the values.
       message.tag.hop = 2;
       message.header.flags = kFlagAbsent;
       message.header.payloadBytes = message.payloadBytes = 0;
       send(transport, message);
     }},
    {"elements", with([](Message& message) { message.header.elementCount *= 2; })},
    {"size", with([](Message& message) { message.payloadBytes *= 2; })},
    {"said size", with([](Message& message) { message.header.payloadBytes = 1; })},
    {"codec", with([](Message& message) { message.header.codec = 77; })},
    {"dtype", with([](Message& message) { message.header.dtype = DType::kFloat64; })},
    {"magic", with([](Message& message) { message.header.magic = 0; })},
    {"version", with([](Message& message) { message.header.version = 99; })},
    {"flags", with([](Message& message) { message.header.flags = 0x80; })},
    {"reference", with([](Message& message) { message.header.flags = kFlagRaw | kFlagReference; })},
    {"step", with([](Message& message) { message.tag.step = 7; })},
    {"tensor", with([](Message& message) { message.tag.tensor += 100; })},
    {"flood",
     [](Transport& transport, uint32_t tensor) {
       Message message = honest(tensor);
       for (uint32_t step = 1; step <= 20000; ++step) {
         message.tag.step = step;
         send(transport, message);
       }
     }},
};

std::string outcome(const Lie& lie) {
  RendezvousOptions rendezvous;
  rendezvous.worldSize = 2;
  rendezvous.token = "of both";
  rendezvous.timeout = Milliseconds(20000);
  ControlServer server(rendezvous);
  rendezvous.port = server.port();
  std::string result = "well";
  std::thread victim([&] {
    UcxOptions ucx;
    std::shared_ptr<ControlPlane> control = connectControl(rendezvous, &ucx.localAddress);
    auto transport = makeUcxTransport(*control, ucx);
    EngineOptions options;
    options.timeout = Milliseconds(1500);
    Engine engine(control, std::move(transport), options);
    std::vector<float> output(kElements);
    try {
      const TensorHandle tensor = engine.declare({weight()}).front();
      Submission submission;
      submission.output = output.data();
      const OperationHandle operation = engine.submit(tensor, std::move(submission));
      while (!engine.wait(operation, Milliseconds(100))) {
      }
      if (output.front() != 1.5f || output.back() != 1.5f) result = "wrong values";
    } catch (const Error& error) {
      result = error.what();
    }
    if (engine.counters().unexpectedPeakBytes > (size_t{600} << 20)) result = "too much was kept";
    engine.shutdown(Milliseconds(100));
  });
  RendezvousOptions own = rendezvous;
  own.rank = 1;
  UcxOptions ucx;
  const auto control = connectControl(own, &ucx.localAddress);
  const auto transport = makeUcxTransport(*control, ucx);
  lie.tell(*transport,
           control->declare({{"weight", weight().describe(), false}}, Milliseconds(10000)).front());
  victim.join();
  transport->close();
  return result;
}

}  // namespace

int main() {
  for (const Lie& lie : kLies) {
    std::printf("%s\t%s\n", lie.name, outcome(lie).c_str());
    std::fflush(stdout);
  }
}

// SPDX-License-Identifier: Apache-2.0
//
// A stranger: it knows a rank's address and port, HiPress's use of UCX and the envelope, but not the job
// token. Usage: stranger PORT SECONDS MESSAGES. It takes the address of its own worker, puts the victim's
// port into it, and sends messages for so many seconds, on a busy machine longer: until it has sent so many
// messages, at most 30 s. It prints the number of messages that UCX took.
#include <ucp/api/ucp.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

/// The same layout as the envelope in core/transport/ucx/ucx_envelope.h.
struct Envelope {
  int32_t source = 0;
  uint32_t tensor = 0, step = 0;
  uint16_t partition = 0, hop = 0;
  unsigned char header[32] = {};
  uint64_t number = 0, proof = 0;
};

/// The port on which UCX listens in this process.
uint16_t ownPort() {
  for (int fd = 3; fd < 256; ++fd) {
    int listening = 0;
    socklen_t size = sizeof listening;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) continue;
    sockaddr_in address{};
    size = sizeof address;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 && address.sin_family == AF_INET)
      return ntohs(address.sin_port);
  }
  return 0;
}

std::string addressOf(ucp_worker_h worker, uint16_t port) {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  ucp_worker_get_address(worker, &address, &bytes);
  std::string text(reinterpret_cast<char*>(address), bytes);
  ucp_worker_release_address(worker, address);
  const uint16_t own = htons(ownPort());
  const uint16_t victim = htons(port);
  for (size_t at = 0; at + 2 <= text.size(); ++at) {
    if (std::memcmp(text.data() + at, &own, 2) == 0) std::memcpy(text.data() + at, &victim, 2);
  }
  return text;
}

/// An envelope that could belong to a gradient of this job, or random bytes.
Envelope forged(std::mt19937& random, size_t payload) {
  Envelope envelope;
  envelope.source = static_cast<int32_t>(random() % 4);
  envelope.tensor = random() % 8;
  envelope.step = random() % 2000;
  envelope.partition = static_cast<uint16_t>(random() % 4);
  envelope.hop = static_cast<uint16_t>(random() % 4);
  const uint64_t elements = payload / 4;
  const uint64_t bytes = payload;
  const unsigned char begin[4] = {'H', 'P', 1, 1};
  std::memcpy(envelope.header, begin, 4);
  std::memcpy(envelope.header + 8, &elements, 8);
  std::memcpy(envelope.header + 16, &bytes, 8);
  envelope.number = 1 + random() % 100000;
  envelope.proof = (uint64_t{random()} << 32) | random();
  switch (random() % 8) {
    case 0:  // a bundle, a greeting, or a report of consumed bytes
      std::memset(&envelope.tensor, 0xff, 12);
      envelope.hop = static_cast<uint16_t>(0xffff - random() % 3);
      break;
    case 1:  // a report that a peer has failed
      envelope.tensor = envelope.step = 0;
      envelope.partition = envelope.hop = 0;
      break;
    case 2:
      envelope.source = static_cast<int32_t>(random());
      break;
    default:
      break;
  }
  return envelope;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  ucp_config_t* config = nullptr;
  ucp_config_read(nullptr, nullptr, &config);
  ucp_config_modify(config, "TLS", "tcp");
  ucp_config_modify(config, "NET_DEVICES", "lo");
  ucp_config_modify(config, "TCP_SYN_CNT", "1");
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
  parameters.features = UCP_FEATURE_AM;
  ucp_context_h context = nullptr;
  if (ucp_init(&parameters, config, &context) != UCS_OK) return 3;
  ucp_worker_params_t workerParameters{};
  ucp_worker_h worker = nullptr;
  if (ucp_worker_create(context, &workerParameters, &worker) != UCS_OK) return 3;
  const std::string address = addressOf(worker, static_cast<uint16_t>(std::atoi(argv[1])));

  ucp_ep_params_t ep{};
  ep.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                  UCP_EP_PARAM_FIELD_ERR_HANDLER;
  ep.address = reinterpret_cast<const ucp_address_t*>(address.data());
  ep.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  static bool broken = false;
  ep.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) { broken = true; };
  std::mt19937 random(7);
  std::vector<char> payload(8 << 20, 'x');
  ucp_ep_h endpoint = nullptr;
  long sent = 0;
  long inFlight = 0;
  const auto begin = std::chrono::steady_clock::now();
  const auto isOver = [&] {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    return passed.count() > (sent < std::atol(argv[3]) ? 30 : std::atof(argv[2]));
  };
  if (ucp_ep_create(worker, &ep, &endpoint) != UCS_OK) broken = true;
  while (!broken && !isOver()) {
    while (ucp_worker_progress(worker) != 0) {
    }
    if (inFlight >= 64) continue;
    const size_t sizes[] = {0, 16, 400, 4096, 70000, 8u << 20};
    const size_t size = sent % 1000 == 0 ? sizes[5] : sizes[random() % 5];
    static std::vector<Envelope> kept(1 << 12);  // UCX reads it until the message has been sent
    Envelope& envelope = kept[static_cast<size_t>(sent) % kept.size()];
    envelope = forged(random, size);
    ucp_request_param_t send{};
    send.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    send.flags = size > 0 && random() % 4 == 0 ? UCP_AM_SEND_FLAG_RNDV : 0;
    send.user_data = &inFlight;
    send.cb.send = [](void* request, ucs_status_t, void* count) {
      --*static_cast<long*>(count);
      ucp_request_free(request);
    };
    const size_t headerBytes = random() % 8 == 0 ? random() % 64 : sizeof envelope;
    const unsigned id = random() % 8 == 0 ? 1 + random() % 7 : 0;
    void* request = ucp_am_send_nbx(endpoint, id, &envelope, headerBytes, payload.data(), size, &send);
    if (UCS_PTR_IS_ERR(request)) break;
    if (request != nullptr) ++inFlight;
    ++sent;
  }
  std::printf("%ld\n", sent);
  std::fflush(stdout);
  _exit(0);  // an attacker ends without a goodbye
}

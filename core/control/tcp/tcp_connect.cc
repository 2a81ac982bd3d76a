// SPDX-License-Identifier: Apache-2.0
#include "core/control/tcp/tcp_connect.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "core/authentication/nonce.h"
#include "core/control/message.h"
#include "core/control/pending_call.h"
#include "core/control/roster.h"
#include "core/control/tcp/proof.h"
#include "core/control/wire/network_interface.h"

namespace hipress::control {

namespace {

/// Rank 0 may not listen yet, so the rank tries again.
struct NotYet {
  std::string why;
};

/// The longest wait without a look at RendezvousOptions::stop.
constexpr Milliseconds kBetweenLooksAtStop{100};

/// The end of the waiting.
struct Limit {
  TimePoint deadline;
  const std::stop_token& stop;

  void throwIfStopped() const {
    if (stop.stop_requested()) throw Error(ErrorKind::kNotInitialized, "the start of this rank was ended");
  }
};

/// Returns false if the deadline passed first.
bool waitFor(int fd, short events, const Limit& limit) {
  for (;;) {
    limit.throwIfStopped();
    const auto left = std::chrono::ceil<Milliseconds>(limit.deadline - Clock::now()).count();
    pollfd entry{fd, events, 0};
    const int ready =
        ::poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left, 0, kBetweenLooksAtStop.count())));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw transportError("poll failed: " + errorText(errno));
    if (Clock::now() >= limit.deadline) return false;
  }
}

Socket connectTo(const addrinfo& address, const Limit& limit) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) throw NotYet{errorText(errno)};
  configureConnection(socket.get());
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) throw NotYet{errorText(errno)};
    if (!waitFor(socket.get(), POLLOUT, limit)) throw NotYet{"no answer"};
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) throw NotYet{errorText(error)};
  }
  if (isConnectedToItself(socket.get())) throw NotYet{"no process listens there"};
  return socket;
}

Socket connectToAny(const RendezvousOptions& options, const Limit& limit) {
  AddressList addresses;
  try {
    addresses = resolve(options.host, options.port);
  } catch (const Error& error) {
    throw NotYet{error.what()};  // a cluster's name service may learn a new host late
  }
  NotYet last{"no address"};
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    try {
      return connectTo(*address, limit);
    } catch (NotYet& notYet) {
      last = std::move(notYet);
    }
  }
  throw last;
}

std::string where(const RendezvousOptions& options) {
  return options.host + " port " + std::to_string(options.port);
}

Frame firstFrame(FrameReceiver& in, int fd, const Limit& limit) {
  for (;;) {
    if (!waitFor(fd, POLLIN, limit)) throw NotYet{"it accepted the connection but did not answer"};
    const bool open = in.receive();
    if (std::optional<Frame> frame = in.next()) return std::move(*frame);
    if (!open) throw NotYet{"it closed the connection"};
  }
}

/// Proves that this rank knows the token, and checks rank 0's proof. Returns false if rank 0 has none.
bool shakeHands(const RendezvousOptions& options, FrameReceiver& in, int fd, const Limit& limit) {
  const Hello hello{
      kProtocolVersion, options.rank, options.worldSize, hostName(), static_cast<int64_t>(::getpid()),
      freshNonce()};
  const std::string said = encodeHello(hello);
  checkSize("the host name", said.size(), kMaxHandshakeFrame);
  FrameSender out(fd);
  out.queue({said, nullptr});
  out.flush();  // a few hundred bytes fit into an empty socket
  const Frame challenge = firstFrame(in, fd, limit);
  if (challenge.type == FrameType::kRefused) throw Error(*decodeRefused(challenge.payload));
  if (challenge.type != FrameType::kChallenge) return false;
  const Greetings greetings{said.substr(kFrameHeader), decodeText(challenge.payload)};
  out.queue({encodeText(FrameType::kProof, proofOfRank(options.token, greetings)), nullptr});
  out.flush();
  const Frame answer = firstFrame(in, fd, limit);
  if (answer.type == FrameType::kRefused) throw Error(*decodeRefused(answer.payload));
  return answer.type == FrameType::kWelcome &&
         sameInConstantTime(decodeWelcome(answer.payload).proof, proofOfServer(options.token, greetings));
}

Connection attempt(const RendezvousOptions& options, const Limit& limit) {
  Socket socket = connectToAny(options, limit);
  const int fd = socket.get();
  Connection connection{std::move(socket), FrameReceiver(fd, kMaxFrame)};
  try {
    if (shakeHands(options, connection.in, fd, limit)) return connection;
  } catch (const Malformed&) {  // same as an answer of another type
  }
  throw transportError(
      "the program at " + where(options) +
      " is not rank 0 of a HiPress job. Check the port, or choose another with HIPRESS_RENDEZVOUS=host:port");
}

}  // namespace

Connection connectToServer(const RendezvousOptions& options) {
  const Limit limit{Clock::now() + clampTimeout(options.timeout), options.stop};
  Milliseconds pause{50};
  for (;;) {
    std::string why;
    limit.throwIfStopped();
    try {
      return attempt(options, limit);
    } catch (const NotYet& notYet) {
      why = notYet.why;
    }
    const auto left = std::chrono::duration_cast<Milliseconds>(limit.deadline - Clock::now());
    if (left <= Milliseconds{0}) {
      const std::string here = whyUnreachable(options.host);
      throw Error(
          ErrorKind::kTimeout,
          "rank " + std::to_string(options.rank) + " could not join rank 0 at " + where(options) +
              " within " + seconds(options.timeout.count()) + " (last try: " + why + "). " +
              (here.empty()
                   ? "Check that rank 0 was started, that this is its address, and that no firewall is in "
                     "between"
                   : here + ": repair it, or let the ranks meet at an address of another interface"));
    }
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min(pause * 2, Milliseconds{500});
  }
}

}  // namespace hipress::control

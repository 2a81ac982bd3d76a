// SPDX-License-Identifier: Apache-2.0
//
// Tests the messages' proofs and the limit on early messages. The program prints failed expectations.
#include <cstdio>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/authentication/nonce.h"
#include "core/authentication/sha256.h"
#include "core/authentication/siphash.h"
#include "core/control/local_control.h"
#include "core/transport/early_bytes.h"
#include "core/transport/replay_window.h"
#include "core/transport/ucx/trust/link_seal.h"

namespace {

using namespace hipress;

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("%s\n", what);
  ++failures;
}

std::string hex(const Digest& digest) {
  std::string text;
  for (const uint8_t byte : digest) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

void testHashes() {
  // FIPS 180-4's examples, and lengths around a block's end with values of Python's hashlib.
  expect(hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
         "sha256 of nothing");
  expect(hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
         "sha256 of abc");
  expect(
      hex(sha256(std::string(55, 'a'))) == "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318",
      "sha256 of 55 bytes");
  expect(
      hex(sha256(std::string(56, 'a'))) == "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a",
      "sha256 of 56 bytes");
  expect(
      hex(sha256(std::string(64, 'a'))) == "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb",
      "sha256 of 64 bytes");
  // RFC 4231, cases 2 and 6.
  expect(hex(hmacSha256("Jefe", "what do ya want for nothing?")) ==
             "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
         "HMAC of RFC 4231, case 2");
  expect(
      hex(hmacSha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")) ==
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
      "HMAC of RFC 4231, case 6");
  // The paper's key 00 01 … 0f; the messages 00 01 … have 0, 8 and 56 bytes (vectors of the reference code).
  const SipKey key{0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
  std::vector<std::byte> message;
  for (unsigned byte = 0; byte < 64; ++byte) message.push_back(static_cast<std::byte>(byte));
  expect(siphash(key, {}) == 0x726fdb47dd0e0e31u, "SipHash of nothing");
  expect(siphash(key, std::span(message).first(8)) == 0x93f5f5799a932462u, "SipHash of 8 bytes");
  expect(freshNonce() != freshNonce(), "nonces differ");
  expect(sameInConstantTime("abc", "abc") && !sameInConstantTime("abc", "abd") &&
             !sameInConstantTime("abc", "ab"),
         "comparing secrets");
}

void testReplays() {
  ReplayWindow window;
  expect(!window.admit(0), "numbers begin at 1");
  std::mt19937 random(3);
  std::set<uint64_t> seen;
  uint64_t newest = 0;
  for (int i = 0; i < 200000; ++i) {
    const uint64_t jump = random() % 50 == 0 ? random() % 9000 : random() % 40;
    const uint64_t back = random() % 100 == 0 ? random() % 20000 : random() % 60;
    const uint64_t number = newest + jump > back ? newest + jump - back : 1;
    if (window.admit(number) != seen.insert(number).second)
      return expect(false, "a replay window takes each number once, however late");
    newest = std::max(newest, number);
  }

  // With many gaps only the oldest numbers are forgotten, and those are refused.
  ReplayWindow crowded;
  const uint64_t last = 4 * ReplayWindow::kMostRanges + ReplayWindow::kWidth;
  for (uint64_t number = 2; number <= last; number += 2) crowded.admit(number);
  expect(!crowded.admit(1) && crowded.admit(last - ReplayWindow::kWidth - 1),
         "the oldest gaps are forgotten");
  // A peer's numbers may be any: they cost neither time nor memory.
  ReplayWindow far;
  expect(far.admit(1) && far.admit(uint64_t{1} << 60) && far.admit(uint64_t{1} << 59) &&
             !far.admit(uint64_t{1} << 59) && !far.admit(1) && far.admit(~uint64_t{0}) &&
             !far.admit(~uint64_t{0}),
         "a large jump is taken at once");
}

void testSeals() {
  auto planes = makeLocalControl(3);
  const std::vector<std::string> nonces{freshNonce(), freshNonce(), freshNonce()};
  LinkSeals zero = sealsOf(*planes[0], nonces);
  LinkSeals one = sealsOf(*planes[1], nonces);
  LinkSeals two = sealsOf(*planes[2], nonces);
  UcxEnvelope envelope{0, {4, 5, 6, 7}, {}, 0, 0};
  zero.outgoing[1].close(envelope, 100);
  expect(!one.incoming[2].admits(envelope, 100), "a message holds for its source only");
  expect(!two.incoming[0].admits(envelope, 100), "a message holds for its receiver only");
  expect(!zero.incoming[1].admits(envelope, 100), "a message does not hold in the other direction");
  expect(!one.incoming[0].admits(envelope, 101), "a message holds for its payload's size only");
  for (size_t byte = 0; byte < sizeof envelope; ++byte) {
    UcxEnvelope changed = envelope;
    reinterpret_cast<unsigned char*>(&changed)[byte] ^= 0x10;
    if (one.incoming[0].admits(changed, 100)) return expect(false, "a changed envelope is refused");
  }
  expect(one.incoming[0].admits(envelope, 100), "a message holds");
  expect(!one.incoming[0].admits(envelope, 100), "a message holds once");

  // After another start of the job with the same token, a recorded message is refused.
  UcxEnvelope recorded{0, {4, 5, 6, 7}, {}, 0, 0};
  zero.outgoing[1].close(recorded, 0);
  LinkSeals again = sealsOf(*planes[1], {freshNonce(), freshNonce(), freshNonce()});
  expect(!again.incoming[0].admits(recorded, 0), "a message of an earlier start is refused");
  const auto others = makeLocalControl(3);
  LinkSeals stranger = sealsOf(*others[0], nonces);
  UcxEnvelope forged{0, {4, 5, 6, 8}, {}, 0, 0};
  stranger.outgoing[1].close(forged, 0);
  expect(!one.incoming[0].admits(forged, 0), "a message made with another token is refused");
}

void testEarlyBytes() {
  expect(earlyAllowance(2) == (size_t{256} << 20) && earlyAllowance(1000) == (size_t{32} << 20),
         "allowances");
  EarlyCredit credit(1000);
  EarlyKeeping keeping(1000);
  expect(credit.spend(600) && credit.spend(400) && !credit.spend(1), "a sender keeps to its allowance");
  expect(keeping.consume(200) == 0 && keeping.consume(50) == 250,
         "a receiver tells what it consumed in quarters");
  credit.consumed(250);
  expect(credit.spend(249) && !credit.spend(1), "consumed bytes may be sent again");
  credit.consumed(100);                // an old report changes nothing
  credit.consumed(uint64_t{1} << 60);  // a peer cannot report more bytes than were sent
  expect(credit.spend(1000) && !credit.spend(1), "a peer cannot grant more bytes than were sent");

  EarlyKeeping flooded(size_t{32} << 20);
  size_t messages = 0;
  while (messages < 10'000'000 && flooded.keep(0)) ++messages;
  expect(messages > 100'000 && messages < 2'000'000, "even empty messages have a bound");
  flooded.release(0);
  flooded.release(0);
  expect(flooded.keep(0), "released bytes may be kept again");
}

}  // namespace

int main() {
  testHashes();
  testReplays();
  testSeals();
  testEarlyBytes();
  return failures;
}

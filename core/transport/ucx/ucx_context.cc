// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/ucx_context.h"

#include <cstdlib>
#include <memory>
#include <vector>

#include "core/transport/transport.h"

namespace hipress {
namespace {

struct Setting {
  const char* name;  // without the prefix UCX_
  const char* value;
};

// With larger segments and socket buffers a link is four times as fast as with UCX's TCP defaults. Where the
// kernel forbids reading another process' memory (cma), larger shared-memory segments more than halve the
// time.
constexpr Setting kSettings[] = {
    {"TCP_SNDBUF", "4m"}, {"TCP_RCVBUF", "4m"}, {"POSIX_SEG_SIZE", "32k"}, {"SYSV_SEG_SIZE", "32k"}};

/// UCX takes memory for each transport that it may use, so it may use one of the two. A message that is sent
/// without a question to its receiver waits outside of shared memory.
std::vector<Setting> settingsFor(SharedMemoryKind memory) {
  switch (memory) {
    case SharedMemoryKind::kNone:
      return {{"TLS", "^posix,sysv"}};
    case SharedMemoryKind::kPosix:
      return {{"TLS", "^sysv"}};
    case SharedMemoryKind::kSystemV:
      return {{"TLS", "^posix"}};
    case SharedMemoryKind::kTightPosix:
      return {{"TLS", "^sysv"}, {"RNDV_THRESH", "inf"}};
    case SharedMemoryKind::kTiniestPosix:
      return {{"TLS", "^sysv"}, {"RNDV_THRESH", "inf"}, {"POSIX_SEG_SIZE", "8k"}};
    case SharedMemoryKind::kUsersChoice:
      return {};
  }
  return {};
}

/// The size of a TCP segment: one payload and room for headers. A receiver copies a payload of several
/// segments once more.
constexpr size_t kSegmentBytes = kFavouredPayloadBytes + (size_t{104} << 10);

void apply(ucp_config_t* config, const char* name, const char* value) {
  if (std::getenv((std::string("UCX_") + name).c_str()) != nullptr) return;
  requireUcx(ucp_config_modify(config, name, value), std::string("UCX rejects the setting ") + name);
}

/// How often the kernel repeats the first packet of a connection so that it gives up within `limit`. The
/// kernel waits 1 s for the first answer, then 2 s, 4 s and so on. UCX connects in a call that blocks until
/// then, and the kernel's default takes more than two minutes.
int synRetries(Milliseconds limit) {
  constexpr int kMost = 6;  // the kernel's default
  int retries = 1;
  while (retries < kMost && std::chrono::seconds((4 << retries) - 1) <= limit) ++retries;
  return retries;
}

}  // namespace

std::string ucxMessage(const std::string& what, ucs_status_t status) {
  return what + ": " + ucs_status_string(status);
}

void requireUcx(ucs_status_t status, const std::string& what) {
  if (status != UCS_OK) throw transportError(ucxMessage(what, status));
}

void allowBridges(ucp_config_t* config) {
  constexpr const char* kName = "TCP_BRIDGE_ENABLE";
  if (std::getenv((std::string("UCX_") + kName).c_str()) == nullptr) ucp_config_modify(config, kName, "y");
}

Error transferError(const std::string& doing, int peer, ucs_status_t status) {
  const std::string rank = "rank " + std::to_string(peer);
  switch (status) {
    case UCS_ERR_CANCELED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_IO_ERROR:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_UNREACHABLE:
      return {ErrorKind::kPeerLost, rank + " was lost (" + ucxMessage(doing + " it failed", status) + ")"};
    default:
      return transportError(ucxMessage(doing + " " + rank + " failed", status));
  }
}

UcxWorker::UcxWorker(const std::string& netDevices, Milliseconds connectLimit, SharedMemoryKind memory) {
  ucp_config_t* raw = nullptr;
  requireUcx(ucp_config_read(nullptr, nullptr, &raw), "UCX cannot read its configuration");
  const std::unique_ptr<ucp_config_t, void (*)(ucp_config_t*)> config(raw, ucp_config_release);
  for (const auto& setting : kSettings) apply(raw, setting.name, setting.value);
  for (const auto& setting : settingsFor(memory)) apply(raw, setting.name, setting.value);
  for (const char* name : {"TCP_TX_SEG_SIZE", "TCP_RX_SEG_SIZE"}) {
    apply(raw, name, std::to_string(kSegmentBytes).c_str());
  }
  apply(raw, "TCP_SYN_CNT", std::to_string(synRetries(connectLimit)).c_str());
  if (!netDevices.empty()) {
    apply(raw, "NET_DEVICES", netDevices.c_str());
    allowBridges(raw);
  }

  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME;
  parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  parameters.mt_workers_shared = 0;
  parameters.name = "hipress";
  requireUcx(ucp_init(&parameters, raw, &context_),
             "UCX cannot start; `hipress doctor` shows what it finds here");

  try {
    ucp_worker_params_t workerParameters{};
    workerParameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS;
    workerParameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    workerParameters.events = UCP_WAKEUP_RX | UCP_WAKEUP_TX;
    requireUcx(ucp_worker_create(context_, &workerParameters, &worker_), "UCX cannot create a worker");
    requireUcx(ucp_worker_get_efd(worker_, &wakeFd_), "UCX has no wake-up descriptor here");
  } catch (...) {
    destroy();
    throw;
  }
}

UcxWorker::~UcxWorker() {
  destroy();
}

void UcxWorker::destroy() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
  worker_ = nullptr;
  context_ = nullptr;
}

std::string UcxWorker::address() const {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  requireUcx(ucp_worker_get_address(worker_, &address, &bytes), "UCX cannot give its address");
  std::string result(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker_, address);
  return result;
}

}  // namespace hipress

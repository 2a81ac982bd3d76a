// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/ucx_info.h"

#include <dlfcn.h>
#include <ucp/api/ucp.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "core/transport/ucx/ucx_context.h"

namespace hipress {
UcxInfo ucxInfo() {
  UcxInfo info;
  info.version = ucp_get_version_string();
  Dl_info library{};
  if (dladdr(reinterpret_cast<void*>(&ucp_get_version_string), &library) != 0)
    info.library = library.dli_fname;

  // UCX lists its resources only as text: a line "#  resource 1 : md 1 dev 1 flags -- tcp/eth0" for each.
  ucp_config_t* config = nullptr;
  requireUcx(ucp_config_read(nullptr, nullptr, &config), "UCX cannot read its configuration");
  allowBridges(config);
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
  parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  const ucs_status_t status = ucp_init(&parameters, config, &context);
  ucp_config_release(config);
  requireUcx(status, "UCX cannot start");
  char* text = nullptr;
  size_t bytes = 0;
  if (FILE* stream = open_memstream(&text, &bytes); stream != nullptr) {
    ucp_context_print_info(context, stream);
    std::fclose(stream);
  }
  ucp_cleanup(context);
  std::set<std::string> transports;
  std::istringstream words(text == nullptr ? "" : text);
  std::free(text);
  for (std::string line; std::getline(words, line);) {
    if (line.find(" resource ") == std::string::npos) continue;
    const size_t start = line.find_last_of(' ') + 1;
    if (line.find('/', start) != std::string::npos) transports.insert(line.substr(start));
  }
  info.transports.assign(transports.begin(), transports.end());
  return info;
}

}  // namespace hipress

// SPDX-License-Identifier: Apache-2.0
#include "core/codec/plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "core/base/error.h"

namespace hipress {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw invalidArgument("codec library '" + path + "' " + reason);
}

std::string lastLoaderError() {
  const char* text = dlerror();  // the loader's last error on this thread
  return text != nullptr ? text : "unknown error";
}

const CodecPlugin& load(const std::string& path) {
  std::error_code error;
  // dlopen() takes a path without a '/' as a name in the loader's own folders.
  const std::string absolute = std::filesystem::absolute(path, error).string();
  if (error || !std::filesystem::is_regular_file(absolute, error)) {
    refuse(path,
           "does not exist or is not a file; give the path of the library built from the codec's program");
  }
  // Never closed, even on an error: its codecs and static objects may outlive every caller.
  void* library = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    refuse(path, "cannot be loaded: " + lastLoaderError() + "; build it again with this version of HiPress");
  }
  void* symbol = dlsym(library, kCodecPluginSymbol);
  if (symbol == nullptr) {
    refuse(path, std::string("has no function ") + kCodecPluginSymbol +
                     ", so it is no codec; give the path of a library built from a codec's program");
  }
  const auto* plugin = reinterpret_cast<const CodecPlugin* (*)()>(symbol)();
  if (plugin == nullptr || plugin->abi != kCodecPluginAbi) {
    refuse(path, "was built for codec interface " +
                     (plugin == nullptr ? std::string("none") : std::to_string(plugin->abi)) +
                     ", this HiPress has " + std::to_string(kCodecPluginAbi) +
                     "; build it again with this version of HiPress");
  }
  return *plugin;
}

}  // namespace

std::string loadCodecLibrary(const std::string& path) {
  const CodecPlugin& plugin = load(path);
  CodecDescription description = plugin.describe();
  std::string name = description.name;
  try {
    registerCodec(std::move(description), plugin.create, plugin.fingerprint);
  } catch (const Error& error) {
    refuse(path, std::string("(built with ") + plugin.compiler + ") cannot be used: " + error.what());
  }
  return name;
}

}  // namespace hipress

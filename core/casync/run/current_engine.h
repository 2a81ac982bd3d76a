// SPDX-License-Identifier: Apache-2.0
//
// The one engine of this process: how operators of different frameworks, each its own library, find it. And
// how they hand an error through a framework's dispatcher, which would flatten its type.
#pragma once

#include <memory>

#include "core/base/error.h"
#include "core/casync/run/engine.h"

namespace hipress {

/// nullptr ends it. Thread-safe.
void setCurrentEngine(std::shared_ptr<Engine> engine);

/// Throws NotInitialized that says to call init().
std::shared_ptr<Engine> currentEngine();

/// Keeps an error for the calling thread, to be thrown by rethrowError() on the same thread after the
/// dispatcher has returned.
void keepError(const Error& error);
void rethrowError();

}  // namespace hipress

// SPDX-License-Identifier: Apache-2.0
//
// The one engine of this process. The operators of each framework are a library of their own and find the
// engine here. They also keep errors here, because a framework's dispatcher would lose the error's type.
#pragma once

#include <memory>

#include "core/base/error.h"
#include "core/casync/run/engine.h"

namespace hipress {

/// Sets the engine of this process; nullptr: the process has none. Thread-safe.
void setCurrentEngine(std::shared_ptr<Engine> engine);

/// The engine of this process. Throws NotInitialized, with the advice to call init(), if there is none.
std::shared_ptr<Engine> currentEngine();

/// Keeps an error for the calling thread. After the dispatcher has returned, rethrowError() throws the error
/// on the same thread.
void keepError(const Error& error);
void rethrowError();

}  // namespace hipress

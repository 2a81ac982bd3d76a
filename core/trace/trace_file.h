// SPDX-License-Identifier: Apache-2.0
//
// The file of a trace: a JSON array to which the ranks of a machine add their events, one after the other.
//
// It is written anew beside itself and then renamed, under a lock: whatever happens, a reader finds the ranks
// that were there before, or these and the next one, never half an event.
#pragma once

#include <string>

namespace hipress {

/// Leaves an array without events in `path`, or what is there if that is a trace. Throws InvalidArgument if
/// no trace can be written there: no such folder, no permission, no room, another kind of file.
void prepareTraceFile(const std::string& path);

/// Adds `events`, JSON objects with commas between them. Throws Transport; then the file is as it was before.
void addToTraceFile(const std::string& path, const std::string& events);

}  // namespace hipress

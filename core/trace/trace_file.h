// SPDX-License-Identifier: Apache-2.0
//
// The file of a trace: a JSON array. The ranks of a machine add their events, one rank after the other.
//
// A rank writes a new file beside the old one and renames it, under a lock. So at any moment a reader finds
// the events of complete ranks only, never half an event.
#pragma once

#include <string>

namespace hipress {

/// Leaves an array without events in `path`, or the trace that is there. Throws InvalidArgument if no trace
/// can be written there: no such folder, no permission, no room, another kind of file.
void prepareTraceFile(const std::string& path);

/// Adds `events`, JSON objects with commas between them. Throws Transport; the file is then unchanged.
void addToTraceFile(const std::string& path, const std::string& events);

}  // namespace hipress

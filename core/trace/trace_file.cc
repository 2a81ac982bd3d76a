// SPDX-License-Identifier: Apache-2.0
#include "core/trace/trace_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/error.h"

namespace hipress {
namespace {

constexpr std::string_view kOpening = "[\n";
constexpr std::string_view kClosing = "\n]\n";

/// The size of a trace of a few steps. If the disk has less room, the user learns it before the training.
constexpr off_t kLeastRoom = off_t{1} << 20;

/// The reason why a file cannot be written. The caller adds the file and the advice.
struct Obstacle {
  std::string why;
};

[[noreturn]] void fail(int error) {
  throw Obstacle{std::error_code(error, std::generic_category()).message()};
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {
    if (fd_ < 0) fail(errno);
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// A file beside another one that takes the other one's place. The destructor removes it if it did not.
class Successor {
 public:
  explicit Successor(const std::string& path)
      : name_(path + ".XXXXXX"), fd_(::mkostemp(name_.data(), O_CLOEXEC)) {}
  ~Successor() {
    if (!placed_) ::unlink(name_.c_str());
  }
  Successor(const Successor&) = delete;
  Successor& operator=(const Successor&) = delete;
  int get() const { return fd_.get(); }

  void reserve(off_t bytes) const {
    const int error = ::posix_fallocate(fd_.get(), 0, bytes);
    if (error != 0 && error != EOPNOTSUPP && error != EINVAL) fail(error);  // a file system without this call
    if (::ftruncate(fd_.get(), 0) != 0) fail(errno);
  }

  void write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t count = ::write(fd_.get(), text.data(), text.size());
      if (count < 0 && errno != EINTR) fail(errno);
      text.remove_prefix(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    }
  }

  void takePlaceOf(const std::string& path, mode_t mode) {
    // Some file systems report a full disk only here.
    if (::fchmod(fd_.get(), mode) != 0 || ::fsync(fd_.get()) != 0) fail(errno);
    if (::rename(name_.c_str(), path.c_str()) != 0) fail(errno);
    placed_ = true;
  }

 private:
  std::string name_;
  Descriptor fd_;
  bool placed_ = false;
};

void lock(int fd) {
  while (::flock(fd, LOCK_EX) != 0) {
    if (errno != EINTR) fail(errno);  // users often end a traced run with Ctrl-C
  }
}

bool isAt(int fd, const std::string& path, struct stat& status) {
  struct stat there{};
  if (::fstat(fd, &status) != 0) fail(errno);
  return ::stat(path.c_str(), &there) == 0 && there.st_dev == status.st_dev && there.st_ino == status.st_ino;
}

std::string read(int fd, off_t offset, size_t bytes) {
  std::string text(bytes, '\0');
  ssize_t count = 0;
  do {
    count = ::pread(fd, text.data(), bytes, offset);
  } while (count < 0 && errno == EINTR);
  if (count < 0) fail(errno);
  text.resize(static_cast<size_t>(count));
  return text;
}

/// Opens and locks the file at `path`; creates it if it does not exist.
template <typename Use>
void withLocked(const std::string& path, Use use) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) throw Obstacle{"it is not a file"};
  for (;;) {
    const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    lock(file.get());
    // Another rank may have renamed a new file to this name meanwhile.
    if (isAt(file.get(), path, status)) return use(file.get(), status);
  }
}

void addLocked(int fd, const struct stat& status, const std::string& path, const std::string& events,
               bool reserve) {
  const auto closing = static_cast<off_t>(kClosing.size());
  const off_t end = std::max<off_t>(status.st_size - closing, 0);
  if (status.st_size > 0 &&
      (read(fd, 0, kOpening.size()) != kOpening || read(fd, end, kClosing.size()) != kClosing)) {
    throw Obstacle{"there is another file of that name, which is no trace"};
  }
  Successor next(path);
  if (reserve) next.reserve(kLeastRoom);
  constexpr size_t kChunk = size_t{1} << 20;
  for (off_t offset = 0; offset < end;) {
    const std::string chunk = read(fd, offset, std::min(kChunk, static_cast<size_t>(end - offset)));
    if (chunk.empty()) throw Obstacle{"another process truncates it"};
    next.write(chunk);
    offset += static_cast<off_t>(chunk.size());
  }
  if (end == 0) next.write("[");
  if (!events.empty()) {
    next.write(end > 1 ? ",\n" : "\n");
    next.write(events);
  }
  next.write(kClosing);
  next.takePlaceOf(path, status.st_mode & 0777);
}

void add(const std::string& given, const std::string& events, bool reserve) {
  std::error_code ignored;
  // A link stays: the file that it names is replaced.
  const std::filesystem::path real = std::filesystem::canonical(given, ignored);
  const std::string path = real.empty() ? given : real.string();
  withLocked(path, [&](int fd, const struct stat& status) {
    try {
      addLocked(fd, status, path, events, reserve);
    } catch (const Obstacle&) {
      if (status.st_size == 0) ::unlink(path.c_str());  // made by this call, or empty
      throw;
    }
  });
}

std::string sentence(const std::string& path, const Obstacle& obstacle) {
  return "the trace " + path + " cannot be written: " + obstacle.why;
}

}  // namespace

void prepareTraceFile(const std::string& path) {
  try {
    add(path, "", true);
  } catch (const Obstacle& obstacle) {
    throw invalidArgument(sentence(path, obstacle) +
                          ". Choose a file in a folder that exists, can be written to and has room "
                          "(HIPRESS_TRACE, init(trace=...) or start_timeline(...))");
  }
}

void addToTraceFile(const std::string& path, const std::string& events) {
  try {
    add(path, events, false);
  } catch (const Obstacle& obstacle) {
    throw transportError(sentence(path, obstacle) +
                         ". This rank's records are lost; the file keeps earlier records of other ranks");
  }
}

}  // namespace hipress

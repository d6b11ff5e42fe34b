#include "runtime/data/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "trainrt/error.h"

namespace trainrt {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  throw Error(ErrorCode::kFile, what + " '" + path + "': " + std::strerror(error));
}

}  // namespace

InputFile::InputFile(const std::string& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) fail("cannot read", path, errno);
  struct stat info;
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    throw Error(ErrorCode::kFile, "cannot read '" + path + "': not a regular file");
  }
  size_ = static_cast<uint64_t>(info.st_size);
}

InputFile::~InputFile() { ::close(fd_); }

void InputFile::check_range(uint64_t offset, uint64_t count) const {
  if (offset <= size_ && count <= size_ - offset) return;
  throw Error(ErrorCode::kFile, "'" + path_ + "' is cut off: " + std::to_string(count) +
                                    " bytes expected at offset " + std::to_string(offset) +
                                    ", the file has " + std::to_string(size_));
}

void InputFile::read(uint64_t offset, std::span<char> out) const {
  check_range(offset, out.size());
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("cannot read", path_, n < 0 ? errno : EIO);
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

std::string InputFile::read(uint64_t offset, uint64_t count) const {
  check_range(offset, count);
  std::string out(count, '\0');
  read(offset, std::span<char>(out));
  return out;
}

std::string gunzip(std::string_view packed, const std::string& path, uint64_t limit) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 32) != Z_OK) throw std::bad_alloc();
  std::string out;
  int status = Z_OK;
  while (status == Z_OK) {
    if (stream.avail_in == 0) {
      const size_t take = std::min<size_t>(packed.size(), size_t{1} << 30);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
      stream.avail_in = static_cast<uInt>(take);
      packed.remove_prefix(take);
    }
    char block[1 << 16];
    stream.next_out = reinterpret_cast<Bytef*>(block);
    stream.avail_out = sizeof(block);
    status = inflate(&stream, Z_NO_FLUSH);
    out.append(block, sizeof(block) - stream.avail_out);
    if (out.size() > limit) status = Z_MEM_ERROR;
  }
  inflateEnd(&stream);
  if (status == Z_MEM_ERROR) {
    throw Error(ErrorCode::kFile,
                "'" + path + "' unpacks to more than " + std::to_string(limit) + " bytes");
  }
  if (status != Z_STREAM_END) {
    throw Error(ErrorCode::kFile, "'" + path + "' is damaged: the gzip stream cannot be unpacked");
  }
  return out;
}

std::string read_file(const std::string& path) {
  const InputFile file(path);
  std::string bytes = file.read(0, file.size());
  if (bytes.size() > 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b') {
    return gunzip(bytes, path, uint64_t{16} << 30);
  }
  return bytes;
}

OutputFile::OutputFile(const std::string& path)
    : path_(path), temporary_(path + ".tmp" + std::to_string(::getpid())) {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("cannot write", path_, errno);
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void OutputFile::write(std::string_view bytes) {
  position_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("cannot write", path_, n < 0 ? errno : EIO);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void OutputFile::commit() {
  const int fd = fd_;
  fd_ = -1;
  int error = ::fsync(fd) == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(temporary_.c_str(), path_.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary_.c_str());
    fail("cannot write", path_, error);
  }
}

void check_writable(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) fail("cannot write", path, EISDIR);
  OutputFile probe(path);
}

}  // namespace trainrt

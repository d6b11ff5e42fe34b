#include "runtime/train/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <utility>

#include "trainrt/error.h"

namespace trainrt {
namespace {

static_assert(std::endian::native == std::endian::little, "the file format is little-endian");

constexpr char kMagic[8] = {'T', 'R', 'A', 'I', 'N', 'R', 'T', '\1'};
constexpr uint32_t kVersion = 1;
constexpr size_t kHeader = 24, kAlignment = 64;
constexpr uint8_t kNewestDType = static_cast<uint8_t>(DType::kBool);
constexpr int64_t kMostRank = 64;

uint32_t update_crc(uint32_t crc, const char* data, size_t bytes) {
  constexpr size_t kPiece = size_t{1} << 30;  // zlib counts in 32 bits
  for (size_t done = 0; done < bytes; done += kPiece) {
    const size_t n = std::min(kPiece, bytes - done);
    crc = static_cast<uint32_t>(
        crc32(crc, reinterpret_cast<const Bytef*>(data + done), static_cast<uInt>(n)));
  }
  return crc;
}

std::string system_error() { return std::strerror(errno); }

// A new file beside the target, removed again unless it is renamed over it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target)
      : target_(target), path_(target + ".tmp-" + std::to_string(getpid())) {
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0) fail("cannot be created");
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (fd_ >= 0) close(fd_);
    if (!renamed_) unlink(path_.c_str());
  }

  void write(const char* data, size_t bytes) {
    crc_ = update_crc(crc_, data, bytes);
    at_ += bytes;
    write_raw(data, bytes);
  }
  template <typename T>
  void number(T value) {
    write(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void text(const std::string& s) {
    if (s.size() > std::numeric_limits<uint32_t>::max()) {
      throw Error(ErrorCode::kFile, path_ + ": a text entry above 4 GiB");
    }
    number(static_cast<uint32_t>(s.size()));
    write(s.data(), s.size());
  }
  void align() {
    const std::string zeros((kAlignment - at_ % kAlignment) % kAlignment, '\0');
    write(zeros.data(), zeros.size());
  }
  void begin() {
    const char zeros[kHeader] = {};
    write_raw(zeros, kHeader);
    at_ = kHeader;
    crc_ = 0;
  }
  void finish() {
    const uint32_t crc = crc_;
    const uint64_t length = at_ - kHeader;
    char header[kHeader];
    std::memcpy(header, kMagic, 8);
    std::memcpy(header + 8, &kVersion, 4);
    std::memcpy(header + 12, &crc, 4);
    std::memcpy(header + 16, &length, 8);
    if (lseek(fd_, 0, SEEK_SET) != 0) fail("cannot be written");
    write_raw(header, kHeader);
    if (fsync(fd_) != 0) fail("cannot be written to disk");
    if (close(std::exchange(fd_, -1)) != 0) fail("cannot be written");
    if (rename(path_.c_str(), target_.c_str()) != 0) fail("cannot be renamed to " + target_);
    renamed_ = true;
    // The new name lasts only when its folder is on disk too.
    const auto folder = std::filesystem::path(target_).parent_path();
    const int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
      fsync(fd);
      close(fd);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kFile, "checkpoint " + path_ + " " + what + ": " + system_error());
  }
  void write_raw(const char* data, size_t bytes) {
    while (bytes > 0) {
      const ssize_t n = ::write(fd_, data, std::min(bytes, size_t{1} << 30));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("cannot be written");
      data += n;
      bytes -= static_cast<size_t>(n);
    }
  }

  std::string target_, path_;
  int fd_ = -1;
  uint32_t crc_ = 0;
  size_t at_ = 0;
  bool renamed_ = false;
};

class Reader {
 public:
  Reader(const std::string& path, const char* data, size_t bytes)
      : path_(path), data_(data), bytes_(bytes) {}

  const char* take(size_t n) {
    if (n > bytes_ - at_) damaged("it ends too early");
    const char* p = data_ + at_;
    at_ += n;
    return p;
  }
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }
  std::string text() {
    const auto n = number<uint32_t>();
    return std::string(take(n), n);
  }
  void align() { take((kAlignment - at_ % kAlignment) % kAlignment); }
  size_t left() const { return bytes_ - at_; }
  void skip(size_t n) { take(n); }
  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(ErrorCode::kFile, "checkpoint " + path_ + " is damaged: " + what);
  }

 private:
  const std::string& path_;
  const char* data_;
  size_t bytes_;
  size_t at_ = 0;
};

Tensor read_tensor(Reader& reader) {
  const auto dtype = reader.number<uint8_t>();
  if (dtype > kNewestDType) reader.damaged("an unknown element type");
  const auto rank = reader.number<uint8_t>();
  if (rank > kMostRank) reader.damaged("a tensor of rank " + std::to_string(rank));
  Shape shape;
  size_t elements = 1;
  for (int i = 0; i < rank; ++i) {
    const auto dim = reader.number<int64_t>();
    if (dim < 0) reader.damaged("a negative dim");
    shape.push_back(dim);
    // Only the end of the file bounds what a stranger may claim.
    if (__builtin_mul_overflow(elements, static_cast<size_t>(dim), &elements)) {
      reader.damaged("a tensor of impossible size");
    }
  }
  reader.align();
  const size_t size = dtype_size(static_cast<DType>(dtype));
  if (elements > reader.left() / size) reader.damaged("a tensor reaches behind its end");
  Tensor tensor(static_cast<DType>(dtype), std::move(shape));
  if (elements > 0) std::memcpy(tensor.raw(), reader.take(elements * size), elements * size);
  return tensor;
}

}  // namespace

Tensor Checkpoint::find(const std::string& name) const {
  for (const auto& [key, value] : tensors) {
    if (key == name) return value;
  }
  return {};
}

int64_t Checkpoint::number(const std::string& name) const {
  const auto it = text.find(name);
  int64_t value = 0;
  if (it != text.end()) {
    const std::string& s = it->second;
    const auto [stop, error] = std::from_chars(s.data(), s.data() + s.size(), value);
    if (error == std::errc() && stop == s.data() + s.size()) return value;
  }
  throw Error(ErrorCode::kFile, "the checkpoint has no number '" + name + "'");
}

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  TemporaryFile file(path);
  file.begin();
  file.number(static_cast<uint32_t>(checkpoint.text.size()));
  for (const auto& [name, value] : checkpoint.text) {
    file.text(name);
    file.text(value);
  }
  file.number(static_cast<uint32_t>(checkpoint.tensors.size()));
  for (const auto& [name, tensor] : checkpoint.tensors) {
    file.text(name);
    file.number(static_cast<uint8_t>(tensor.dtype()));
    file.number(static_cast<uint8_t>(tensor.rank()));
    for (int64_t dim : tensor.shape()) file.number(dim);
    file.align();
    file.write(static_cast<const char*>(tensor.raw()), tensor.bytes());
  }
  file.finish();
}

bool is_checkpoint(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[8] = {};
  return file.read(magic, 8) && std::memcmp(magic, kMagic, 8) == 0;
}

Checkpoint read_checkpoint(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error(ErrorCode::kFile, "checkpoint " + path + " cannot be read: " + system_error());
  char header[kHeader] = {};
  if (!file.read(header, kHeader) || std::memcmp(header, kMagic, 8) != 0) {
    throw Error(ErrorCode::kFile, path + " is no checkpoint of trainrt");
  }
  uint32_t version = 0, crc = 0;
  uint64_t length = 0;
  std::memcpy(&version, header + 8, 4);
  std::memcpy(&crc, header + 12, 4);
  std::memcpy(&length, header + 16, 8);
  if (version != kVersion) {
    throw Error(ErrorCode::kFile, "checkpoint " + path + " has version " + std::to_string(version) +
                                      "; this program reads version " + std::to_string(kVersion));
  }
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error || size != length + kHeader) {
    throw Error(ErrorCode::kFile, "checkpoint " + path + " is damaged: expected " +
                                      std::to_string(length) + " bytes behind the header, found " +
                                      std::to_string(error ? 0 : size - kHeader));
  }
  Tensor bytes(DType::kUInt8, {static_cast<int64_t>(size)});
  file.seekg(0);
  if (!file.read(static_cast<char*>(bytes.raw()), static_cast<std::streamsize>(size))) {
    throw Error(ErrorCode::kFile, "checkpoint " + path + " cannot be read: " + system_error());
  }
  const char* data = static_cast<const char*>(bytes.raw());
  if (update_crc(0, data + kHeader, static_cast<size_t>(length)) != crc) {
    throw Error(ErrorCode::kFile, "checkpoint " + path + " is damaged: its checksum is wrong");
  }
  Reader reader(path, data, static_cast<size_t>(size));
  reader.skip(kHeader);
  Checkpoint checkpoint;
  for (auto n = reader.number<uint32_t>(); n > 0; --n) {
    std::string name = reader.text();
    checkpoint.text[std::move(name)] = reader.text();
  }
  std::set<std::string> names;
  for (auto n = reader.number<uint32_t>(); n > 0; --n) {
    std::string name = reader.text();
    if (!names.insert(name).second) reader.damaged("'" + name + "' occurs twice");
    Tensor tensor = read_tensor(reader);
    checkpoint.tensors.emplace_back(std::move(name), std::move(tensor));
  }
  if (reader.left() != 0) reader.damaged("bytes behind the last tensor");
  return checkpoint;
}

}  // namespace trainrt

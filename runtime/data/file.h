// Reading files of unknown origin, and writing files that are complete or absent.
#ifndef TRAINRT_RUNTIME_DATA_FILE_H_
#define TRAINRT_RUNTIME_DATA_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trainrt {

/// A regular file opened for reading. All failures throw Error(kFile) naming the path. One object
/// may be read from several threads.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  /// Fills `out` from `offset`; a range that is not inside the file throws.
  void read(uint64_t offset, std::span<char> out) const;
  std::string read(uint64_t offset, uint64_t count) const;

 private:
  void check_range(uint64_t offset, uint64_t count) const;

  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

/// The whole file; `.gz` files (by their first bytes) are unpacked.
std::string read_file(const std::string& path);

/// Unpacks a gzip or zlib stream. More than `limit` bytes, or a damaged stream, throw Error(kFile).
std::string gunzip(std::string_view packed, const std::string& path, uint64_t limit);

/// Writes `path`.tmp… and renames it in commit(); without commit() nothing remains.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  uint64_t position() const { return position_; }
  void commit();

 private:
  std::string path_, temporary_;
  int fd_ = -1;
  uint64_t position_ = 0;
};

/// Throws Error(kFile) unless a file can be created at (or renamed to) `path`. Leaves no trace.
void check_writable(const std::string& path);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_DATA_FILE_H_

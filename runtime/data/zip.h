// Zip archives as NumPy writes them: stored or deflated members, ZIP64.
#ifndef TRAINRT_RUNTIME_DATA_ZIP_H_
#define TRAINRT_RUNTIME_DATA_ZIP_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/file.h"

namespace trainrt {

struct ZipEntry {
  std::string name;
  uint64_t packed_size = 0, size = 0, header_offset = 0;
  uint32_t crc = 0;
  uint16_t method = 0, flags = 0;
};

/// Reads the central directory at once and members on demand. Every size is checked against the
/// file; what does not hold throws Error(kFile).
class ZipReader {
 public:
  explicit ZipReader(const std::string& path);
  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// The unpacked member; its checksum is verified.
  std::string read(const ZipEntry& entry) const;

 private:
  [[noreturn]] void damaged(const std::string& why) const;
  void read_directory(uint64_t offset, uint64_t size, uint64_t count);

  InputFile file_;
  std::vector<ZipEntry> entries_;
};

/// Writes stored members; the file appears under its name in finish().
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path) : file_(path) {}
  /// The member is the concatenation of the parts.
  void add(const std::string& name, std::span<const std::string_view> parts);
  void finish();

 private:
  OutputFile file_;
  std::vector<ZipEntry> entries_;
};

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_DATA_ZIP_H_

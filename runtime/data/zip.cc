#include "runtime/data/zip.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "trainrt/error.h"

namespace trainrt {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryHeader = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr uint32_t kSaturated = 0xffffffff;
// Deflate packs at most 258 bytes into two bits.
constexpr uint64_t kMaxRatio = 1032;

template <typename T>
T load(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <typename... T>
std::string packed(T... values) {
  std::string out;
  (out.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
  return out;
}

uint32_t crc_of(std::string_view bytes, uint32_t crc = 0) {
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

/// Replaces saturated 32-bit fields by those of the ZIP64 extra field; false when it is too short.
bool apply_zip64(std::string_view extra, ZipEntry* entry) {
  while (extra.size() >= 4) {
    const auto id = load<uint16_t>(extra, 0);
    const size_t size = load<uint16_t>(extra, 2);
    if (size > extra.size() - 4) return false;
    if (id == 1) {
      size_t at = 4;
      for (uint64_t* field : {&entry->size, &entry->packed_size, &entry->header_offset}) {
        if (*field != kSaturated) continue;
        if (at + 8 > size + 4) return false;
        *field = load<uint64_t>(extra, at);
        at += 8;
      }
    }
    extra.remove_prefix(4 + size);
  }
  return true;
}

}  // namespace

ZipReader::ZipReader(const std::string& path) : file_(path) {
  // The end record is followed by a comment of at most 65535 bytes.
  const uint64_t tail_size = std::min<uint64_t>(file_.size(), 65535 + 22);
  const uint64_t tail_at = file_.size() - tail_size;
  const std::string tail = file_.read(tail_at, tail_size);
  const std::string mark = packed(kEnd);
  size_t end = std::string::npos;
  if (tail.size() >= 22) end = tail.rfind(mark, tail.size() - 22);
  if (end == std::string::npos) damaged("no zip directory found: is it an .npz file?");
  uint64_t count = load<uint16_t>(tail, end + 10), size = load<uint32_t>(tail, end + 12),
           offset = load<uint32_t>(tail, end + 16);
  if (end >= 20 && load<uint32_t>(tail, end - 20) == kLocator64) {
    const std::string record = file_.read(load<uint64_t>(tail, end - 20 + 8), 56);
    if (load<uint32_t>(record, 0) != kEnd64) damaged("the ZIP64 end record is missing");
    count = load<uint64_t>(record, 32);
    size = load<uint64_t>(record, 40);
    offset = load<uint64_t>(record, 48);
  }
  read_directory(offset, size, count);
}

void ZipReader::damaged(const std::string& why) const {
  throw Error(ErrorCode::kFile, "'" + file_.path() + "' is damaged: " + why);
}

void ZipReader::read_directory(uint64_t offset, uint64_t size, uint64_t count) {
  const std::string directory = file_.read(offset, size);
  size_t at = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (directory.size() - at < 46 || load<uint32_t>(directory, at) != kDirectoryHeader) {
      damaged("entry " + std::to_string(i) + " of its zip directory is broken");
    }
    ZipEntry entry;
    entry.flags = load<uint16_t>(directory, at + 8);
    entry.method = load<uint16_t>(directory, at + 10);
    entry.crc = load<uint32_t>(directory, at + 16);
    entry.packed_size = load<uint32_t>(directory, at + 20);
    entry.size = load<uint32_t>(directory, at + 24);
    entry.header_offset = load<uint32_t>(directory, at + 42);
    const size_t name = load<uint16_t>(directory, at + 28),
                 extra = load<uint16_t>(directory, at + 30),
                 comment = load<uint16_t>(directory, at + 32);
    if (directory.size() - at - 46 < name + extra + comment) {
      damaged("entry " + std::to_string(i) + " of its zip directory is cut off");
    }
    entry.name = directory.substr(at + 46, name);
    if (!apply_zip64(std::string_view(directory).substr(at + 46 + name, extra), &entry)) {
      damaged("the ZIP64 field of '" + entry.name + "' is broken");
    }
    entries_.push_back(std::move(entry));
    at += 46 + name + extra + comment;
  }
}

std::string ZipReader::read(const ZipEntry& entry) const {
  if (entry.flags & 1) damaged("'" + entry.name + "' is encrypted");
  if (entry.method != 0 && entry.method != 8) {
    damaged("'" + entry.name + "' uses zip method " + std::to_string(entry.method) +
            "; stored (0) and deflated (8) are read");
  }
  const std::string header = file_.read(entry.header_offset, 30);
  if (load<uint32_t>(header, 0) != kLocalHeader) damaged("no member at '" + entry.name + "'");
  const uint64_t at =
      entry.header_offset + 30 + load<uint16_t>(header, 26) + load<uint16_t>(header, 28);
  // Sizes come from the directory: the local header may leave them to a data descriptor.
  std::string bytes = file_.read(at, entry.packed_size);
  if (entry.method == 0) {
    if (entry.size != entry.packed_size) damaged("the sizes of '" + entry.name + "' disagree");
  } else {
    if (entry.size / kMaxRatio > entry.packed_size) {
      damaged("'" + entry.name + "' claims more bytes than its packed form can hold");
    }
    std::string out(entry.size, '\0');
    z_stream stream{};
    if (inflateInit2(&stream, -15) != Z_OK) throw std::bad_alloc();
    size_t in_at = 0, out_at = 0;
    int status = Z_OK;
    while (status == Z_OK) {
      constexpr size_t kChunk = size_t{1} << 30;
      const size_t in_now = std::min(kChunk, bytes.size() - in_at),
                   out_now = std::min(kChunk, out.size() - out_at);
      stream.next_in = reinterpret_cast<Bytef*>(bytes.data() + in_at);
      stream.avail_in = static_cast<uInt>(in_now);
      stream.next_out = reinterpret_cast<Bytef*>(out.data() + out_at);
      stream.avail_out = static_cast<uInt>(out_now);
      status = inflate(&stream, Z_NO_FLUSH);
      in_at += in_now - stream.avail_in;
      out_at += out_now - stream.avail_out;
    }
    inflateEnd(&stream);
    if (status != Z_STREAM_END || out_at != out.size()) {
      damaged("'" + entry.name + "' cannot be unpacked");
    }
    bytes = std::move(out);
  }
  if (crc_of(bytes) != entry.crc) damaged("the checksum of '" + entry.name + "' is wrong");
  return bytes;
}

void ZipWriter::add(const std::string& name, std::span<const std::string_view> parts) {
  if (name.size() > 0xffff) throw Error(ErrorCode::kFile, "zip: name too long: " + name);
  ZipEntry entry;
  entry.name = name;
  entry.header_offset = file_.position();
  for (const std::string_view part : parts) {
    entry.size += part.size();
    entry.crc = crc_of(part, entry.crc);
  }
  entry.packed_size = entry.size;
  const bool large = entry.size >= kSaturated;
  const auto size = large ? kSaturated : static_cast<uint32_t>(entry.size);
  const std::string extra = large ? packed(uint16_t{1}, uint16_t{16}, entry.size, entry.size) : "";
  file_.write(packed(kLocalHeader, uint16_t(large ? 45 : 20), uint16_t{0x800}, uint16_t{0},
                     uint16_t{0}, uint16_t{0x21}, entry.crc, size, size,
                     static_cast<uint16_t>(name.size()), static_cast<uint16_t>(extra.size())));
  file_.write(name);
  file_.write(extra);
  for (const std::string_view part : parts) file_.write(part);
  entries_.push_back(std::move(entry));
}

void ZipWriter::finish() {
  const uint64_t start = file_.position();
  for (const ZipEntry& entry : entries_) {
    const bool large = entry.size >= kSaturated, far = entry.header_offset >= kSaturated;
    std::string extra;
    if (large) extra += packed(entry.size, entry.size);
    if (far) extra += packed(entry.header_offset);
    if (!extra.empty()) {
      extra = packed(uint16_t{1}, static_cast<uint16_t>(extra.size())) + extra;
    }
    const auto size = large ? kSaturated : static_cast<uint32_t>(entry.size);
    const auto version = static_cast<uint16_t>(extra.empty() ? 20 : 45);
    file_.write(packed(kDirectoryHeader, version, version, uint16_t{0x800}, uint16_t{0},
                       uint16_t{0}, uint16_t{0x21}, entry.crc, size, size,
                       static_cast<uint16_t>(entry.name.size()),
                       static_cast<uint16_t>(extra.size()), uint16_t{0}, uint16_t{0}, uint16_t{0},
                       uint32_t{0}, far ? kSaturated : static_cast<uint32_t>(entry.header_offset)));
    file_.write(entry.name);
    file_.write(extra);
  }
  const uint64_t size = file_.position() - start, end64 = file_.position();
  const uint64_t count = entries_.size();
  if (count >= 0xffff || start >= kSaturated || size >= kSaturated) {
    file_.write(packed(kEnd64, uint64_t{44}, uint16_t{45}, uint16_t{45}, uint32_t{0}, uint32_t{0},
                       count, count, size, start));
    file_.write(packed(kLocator64, uint32_t{0}, end64, uint32_t{1}));
  }
  const auto count16 = static_cast<uint16_t>(std::min<uint64_t>(count, 0xffff));
  file_.write(packed(kEnd, uint16_t{0}, uint16_t{0}, count16, count16,
                     static_cast<uint32_t>(std::min<uint64_t>(size, kSaturated)),
                     static_cast<uint32_t>(std::min<uint64_t>(start, kSaturated)), uint16_t{0}));
  file_.commit();
}

}  // namespace trainrt

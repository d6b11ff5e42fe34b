#include "frontend/writer.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "frontend/inference_form.h"
#include "frontend/onnx_dtype.h"

namespace trainrt {
namespace {

constexpr uint64_t kAlignAbove = 64 << 10;  // bytes; such tensors start on a page
constexpr uint64_t kPage = 4096;
constexpr uint64_t kExternalAbove = 1024;  // smaller tensors stay inside

/// A file that appears under its name only when it is complete.
class NewFile {
 public:
  explicit NewFile(std::string path) : path_(std::move(path)) {
    static std::atomic<int> counter{0};
    temporary_ = path_ + ".tmp-" + std::to_string(getpid()) + "-" + std::to_string(counter++);
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0) fail("cannot be created");
  }
  ~NewFile() {
    if (fd_ >= 0) close(fd_);
    if (!done_) std::remove(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int fd() const { return fd_; }
  uint64_t size() const { return size_; }

  void write(const void* data, uint64_t bytes) {
    const char* p = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t n = ::write(fd_, p, std::min<uint64_t>(bytes, uint64_t{1} << 30));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("cannot be written");
      p += n;
      bytes -= static_cast<uint64_t>(n);
      size_ += static_cast<uint64_t>(n);
    }
  }
  void pad_to(uint64_t multiple) {
    const std::vector<char> zeros((multiple - size_ % multiple) % multiple, 0);
    write(zeros.data(), zeros.size());
  }
  void flush() {
    if (fsync(fd_) != 0 && errno != EINVAL) fail("cannot be written");
    const int result = close(fd_);
    fd_ = -1;
    if (result != 0) fail("cannot be written");
  }
  void publish() {
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be written");
    done_ = true;
  }
  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorCode::kFile, path_ + ": " + what + ": " + std::strerror(errno));
  }

 private:
  std::string path_, temporary_;
  int fd_ = -1;
  uint64_t size_ = 0;
  bool done_ = false;
};

void set_entry(onnx::TensorProto* t, const char* key, std::string value) {
  onnx::StringStringEntryProto* e = t->add_external_data();
  e->set_key(key);
  e->set_value(std::move(value));
}

/// New contents by slot, in the stored types.
struct NewValues {
  std::map<int32_t, Tensor> slots;
  std::vector<std::pair<const ImportedWeight*, Tensor>> identities;
};

NewValues convert(const ImportedModel& m, const std::map<std::string, Tensor>& values) {
  std::map<std::string, const ImportedWeight*> known;
  for (const ImportedWeight& w : m.weights) {
    if (w.is_float) known.emplace(w.info.name, &w);
  }
  NewValues result;
  std::string faults;
  auto fault = [&](const std::string& text) { faults += (faults.empty() ? "" : "; ") + text; };
  for (const auto& [name, value] : values) {
    const auto it = known.find(name);
    if (it == known.end()) {
      fault("the model has no weight '" + name + "'");
      continue;
    }
    const ImportedWeight& w = *it->second;
    if (!value.defined() || !is_float(value.dtype()) || value.shape() != w.info.shape) {
      fault("weight '" + name + "' is " + to_string(TensorType{w.info.dtype, w.info.shape}) +
            ", given " +
            (value.defined() ? to_string(TensorType{value.dtype(), value.shape()}) : "nothing"));
      continue;
    }
    Tensor stored = value.dtype() == w.info.dtype ? value : value.to(w.info.dtype);
    if (w.slot >= 0) {
      result.slots[w.slot] = std::move(stored);
    } else if (w.identity_node >= 0) {
      const Tensor& old = w.stored.value;
      if (old.bytes() == 0 || std::memcmp(old.raw(), stored.raw(), old.bytes()) != 0) {
        result.identities.emplace_back(&w, std::move(stored));
      }
    } else {
      fault("weight '" + name + "' has no place of its own in the file");
    }
  }
  if (!faults.empty()) throw Error(ErrorCode::kInput, faults);
  return result;
}

void set_raw(onnx::TensorProto* t, const Tensor& value) {
  t->set_raw_data(value.raw(), value.bytes());
}

void make_constant(onnx::NodeProto* node, const Tensor& value) {
  node->set_op_type("Constant");
  node->clear_input();
  node->clear_attribute();
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name("value");
  a->set_type(onnx::AttributeProto::TENSOR);
  onnx::TensorProto* t = a->mutable_t();
  for (int64_t d : value.shape()) t->add_dims(d);
  t->set_data_type(static_cast<int32_t>(onnx_from_dtype(value.dtype())));
  set_raw(t, value);
}

uint64_t total_bytes(const ImportedModel& m) {
  uint64_t bytes = m.proto.ByteSizeLong();
  for (const Stored& s : m.stored) {
    if (s.moved && !s.external) bytes += s.value.bytes() + 16;
  }
  for (const ImportedWeight& w : m.weights) {
    if (w.identity_node >= 0) bytes += w.stored.value.bytes() + 64;
  }
  return bytes;
}

}  // namespace

onnx::ModelProto whole_proto(const ImportedModel& m) {
  onnx::ModelProto proto = m.proto;
  int32_t slot = 0;
  for_each_slot(proto, [&](const Slot& place) {
    const Stored& stored = m.stored[static_cast<size_t>(slot++)];
    if (place.floats != nullptr || (!stored.moved && !stored.packed.defined())) return;
    place.tensor->clear_external_data();
    place.tensor->clear_data_location();
    set_raw(place.tensor, stored.packed.defined() ? stored.packed : stored.value);
  });
  return proto;
}

void write_model(const ImportedModel& m, const std::string& path,
                 const std::map<std::string, Tensor>& values, const WriteOptions& options) {
  NewValues fresh = convert(m, values);
  onnx::ModelProto proto = m.proto;
  const bool all_external = total_bytes(m) > options.external_above;
  const std::string data_path = path + ".data";
  const std::string location = std::filesystem::path(data_path).filename().string();
  std::unique_ptr<NewFile> data;

  int32_t slot = 0;
  for_each_slot(proto, [&](const Slot& place) {
    const int32_t i = slot++;
    const Stored& stored = m.stored[static_cast<size_t>(i)];
    const auto changed = fresh.slots.find(i);
    if (place.floats != nullptr) {
      if (changed == fresh.slots.end()) return;
      const auto floats = std::as_const(changed->second).data<float>();
      place.floats->mutable_floats()->Assign(floats.begin(), floats.end());
      return;
    }
    if (!stored.moved && !stored.packed.defined()) return;
    const Tensor& value = changed != fresh.slots.end() ? changed->second
                          : stored.packed.defined()    ? stored.packed
                                                       : stored.value;
    place.tensor->clear_external_data();
    place.tensor->clear_data_location();
    if (!stored.external && !(all_external && value.bytes() > kExternalAbove)) {
      set_raw(place.tensor, value);
      return;
    }
    if (data == nullptr) data = std::make_unique<NewFile>(data_path);
    data->pad_to(value.bytes() >= kAlignAbove ? kPage : 16);
    place.tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    set_entry(place.tensor, "location", location);
    set_entry(place.tensor, "offset", std::to_string(data->size()));
    set_entry(place.tensor, "length", std::to_string(value.bytes()));
    data->write(value.raw(), value.bytes());
  });

  int32_t order = 0;
  std::map<int32_t, const Tensor*> identities;
  for (const auto& [w, value] : fresh.identities) identities[w->identity_node] = &value;
  if (!identities.empty()) {
    for_each_node(proto, [&](onnx::NodeProto* node, bool) {
      const auto it = identities.find(order++);
      if (it != identities.end()) make_constant(node, *it->second);
    });
  }

  to_inference_form(proto);
  NewFile file(path);
  {
    google::protobuf::io::FileOutputStream out(file.fd(), 1 << 20);
    bool ok;
    {
      google::protobuf::io::CodedOutputStream coded(&out);
      coded.SetSerializationDeterministic(true);
      ok = proto.ByteSizeLong() < (uint64_t{1} << 31) && proto.SerializeToCodedStream(&coded) &&
           !coded.HadError();
    }
    if (!ok || !out.Flush()) {
      if (out.GetErrno() != 0) errno = out.GetErrno();
      file.fail("cannot be written");
    }
  }
  file.flush();
  if (data != nullptr) {
    data->flush();
    data->publish();
  }
  file.publish();
}

}  // namespace trainrt

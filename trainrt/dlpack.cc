#include "trainrt/dlpack.h"

#include <dlpack/dlpack.h>

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainrt/detail/dlpack_device.h"

namespace trainrt {
namespace {

// ---- out ----

uint8_t type_code(DType dtype) {
  if (dtype == DType::kBFloat16) return kDLBfloat;
  if (is_float(dtype)) return kDLFloat;
  if (dtype == DType::kBool) return kDLBool;
  return dtype_name(dtype).starts_with('u') ? kDLUInt : kDLInt;
}

DLDataType type_of(DType dtype) {
  return {type_code(dtype), static_cast<uint8_t>(8 * dtype_size(dtype)), 1};
}

/// What an exported tensor points to; the deleter drops all of it.
template <typename Managed>
struct Lent {
  Managed managed = {};
  Tensor tensor;
  std::vector<int64_t> shape, strides;
};

template <typename Managed>
Managed* lend(const Tensor& tensor) {
  if (!tensor.defined()) throw Error(ErrorCode::kInput, "to_dlpack: the tensor is undefined");
  auto lent = std::make_unique<Lent<Managed>>();
  lent->tensor = tensor;
  lent->shape = tensor.shape();
  lent->strides = tensor.strides();
  DLTensor& t = lent->managed.dl_tensor;
  t.data = tensor.size() == 0 ? nullptr : lent->tensor.raw();
  t.device = {kDLCPU, 0};
  t.ndim = static_cast<int32_t>(tensor.rank());
  t.dtype = type_of(tensor.dtype());
  t.shape = lent->shape.data();
  t.strides = lent->strides.data();
  lent->managed.manager_ctx = lent.get();
  lent->managed.deleter = [](Managed* self) {
    delete static_cast<Lent<Managed>*>(self->manager_ctx);
  };
  return &lent.release()->managed;
}

// ---- in ----

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::kInput, "from_dlpack: " + why);
}

std::string name_of(const DLDevice& device) {
  static constexpr const char* kNames[] = {nullptr,     "cpu",
                                           "cuda",      "cuda pinned memory",
                                           "opencl",    nullptr,
                                           nullptr,     "vulkan",
                                           "metal",     "vpi",
                                           "rocm",      "rocm pinned memory",
                                           "extension", "cuda managed memory",
                                           "oneapi",    "webgpu",
                                           "hexagon",   "maia"};
  const auto type = static_cast<size_t>(device.device_type);
  const bool known = type < std::size(kNames) && kNames[type] != nullptr;
  return (known ? std::string(kNames[type]) : "type " + std::to_string(device.device_type)) + ":" +
         std::to_string(device.device_id);
}

std::string name_of(const DLDataType& type) {
  static constexpr const char* kNames[] = {"int",    "uint",    "float", "handle",
                                           "bfloat", "complex", "bool"};
  std::string text = type.code < std::size(kNames) ? std::string(kNames[type.code])
                                                   : "type " + std::to_string(type.code) + " of ";
  text += std::to_string(type.bits);
  if (type.code >= std::size(kNames)) text += " bits";
  return type.lanes == 1 ? text : text + " in vectors of " + std::to_string(type.lanes);
}

DType dtype_from(const DLDataType& type) {
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const DLDataType known = type_of(static_cast<DType>(i));
    if (known.code == type.code && known.bits == type.bits && known.lanes == type.lanes) {
      return static_cast<DType>(i);
    }
  }
  refuse("elements are " + name_of(type) +
         "; expected bool, bfloat16, float16, float32, float64 or an integer of 8 to 64 bits");
}

Shape shape_of(const DLTensor& t) {
  if (t.ndim < 0) refuse("negative rank " + std::to_string(t.ndim));
  if (t.ndim > 0 && t.shape == nullptr) refuse("no shape");
  Shape shape(t.shape, t.shape + t.ndim);
  for (const int64_t dim : shape) {
    if (dim < 0) refuse("negative dim in shape " + to_string(shape));
  }
  return shape;
}

bool is_row_major(const DLTensor& t, const Shape& shape) {
  if (t.strides == nullptr) return true;
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && t.strides[i] != step) return false;  // one step long: the stride is unused
    step *= shape[i];
  }
  return true;
}

Tensor copy_of(const char* data, const DLTensor& t, DType dtype, const Shape& shape) {
  Tensor copy(dtype, shape);
  auto* to = static_cast<char*>(copy.raw());
  if (is_row_major(t, shape)) {
    std::memcpy(to, data, copy.bytes());
    return copy;
  }
  const auto width = static_cast<int64_t>(dtype_size(dtype));
  std::vector<int64_t> index(shape.size());
  for (int64_t i = 0; i < copy.size(); ++i, to += width) {
    std::memcpy(to, data, static_cast<size_t>(width));
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) {
        data += t.strides[d] * width;
        break;
      }
      data -= (shape[d] - 1) * t.strides[d] * width;
      index[d] = 0;
    }
  }
  return copy;
}

/// A tensor of the other library, which gets it back from the last reader.
template <typename Managed>
struct Borrowed {
  Borrowed() = default;
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
  }
  Managed* managed = nullptr;
};

/// The whole extent of a tensor on a GPU is copied, then what it shows of that.
Tensor copy_from_device(const DLTensor& t, DType dtype, const Shape& shape) {
  const auto width = static_cast<int64_t>(dtype_size(dtype));
  const bool dense = is_row_major(t, shape);
  int64_t first = 0, last = 0;  // elements before and behind the start
  for (size_t d = 0; d < shape.size() && !dense; ++d) {
    const int64_t reach = (shape[d] - 1) * t.strides[d];
    (reach < 0 ? first : last) += reach;
  }
  if (dense) last = element_count(shape) - 1;
  Tensor extent(DType::kUInt8, {(last - first + 1) * width});
  copy_from_gpu()(t.device.device_id, extent.raw(),
                  static_cast<char*>(t.data) + t.byte_offset + first * width, extent.bytes());
  return copy_of(static_cast<char*>(extent.raw()) - first * width, t, dtype, shape);
}

template <typename Managed>
Tensor borrow(Managed* managed, bool read_only, DlpackCopy mode) {
  const DLTensor& t = managed->dl_tensor;
  const bool on_gpu =
      t.device.device_type == kDLCUDA && mode != DlpackCopy::kNever && copy_from_gpu() != nullptr;
  if (t.device.device_type != kDLCPU && !on_gpu) {
    refuse("the tensor is on " + name_of(t.device) + "; copy it to the cpu first");
  }
  const DType dtype = dtype_from(t.dtype);
  const Shape shape = shape_of(t);
  const int64_t size = element_count(shape);
  if (size > 0 && t.data == nullptr) refuse("null data for shape " + to_string(shape));

  auto borrowed = std::make_shared<Borrowed<Managed>>();
  Tensor tensor;
  if (size == 0) {
    tensor = Tensor(dtype, shape);
  } else if (on_gpu) {
    tensor = copy_from_device(t, dtype, shape);
  } else {
    char* data = static_cast<char*>(t.data) + t.byte_offset;
    std::string why;
    if (!is_row_major(t, shape)) {
      why = "strides are " + to_string(std::span(t.strides, shape.size())) + ", not row-major";
    } else if (read_only) {
      why = "the data is read-only";
    } else if (reinterpret_cast<uintptr_t>(data) % dtype_size(dtype) != 0) {
      why = "the data is not aligned to its elements";
    }
    if (mode == DlpackCopy::kNever && !why.empty()) {
      refuse("cannot share " + std::string(dtype_name(dtype)) + to_string(shape) + ": " + why +
             "; DlpackCopy::kIfNeeded copies it");
    }
    tensor = mode == DlpackCopy::kAlways || !why.empty()
                 ? copy_of(data, t, dtype, shape)
                 : Tensor::view(data, dtype, shape, borrowed);
  }
  borrowed->managed = managed;  // nothing throws from here on
  return tensor;
}

template <typename Managed>
void check_not_null(const Managed* managed) {
  if (managed == nullptr) refuse("null pointer");
}

}  // namespace

CopyFromGpu& copy_from_gpu() {
  static CopyFromGpu copy = nullptr;
  return copy;
}

DLManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor) {
  auto* managed = lend<DLManagedTensorVersioned>(tensor);
  managed->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  return managed;
}

DLManagedTensor* to_dlpack(const Tensor& tensor) { return lend<DLManagedTensor>(tensor); }

Tensor from_dlpack(DLManagedTensorVersioned* managed, DlpackCopy copy) {
  check_not_null(managed);
  if (managed->version.major != DLPACK_MAJOR_VERSION) {
    refuse("the tensor is of DLPack " + std::to_string(managed->version.major) + "." +
           std::to_string(managed->version.minor) + ", expected " +
           std::to_string(DLPACK_MAJOR_VERSION) + ".x");
  }
  return borrow(managed, (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0, copy);
}

Tensor from_dlpack(DLManagedTensor* managed, DlpackCopy copy) {
  check_not_null(managed);
  return borrow(managed, false, copy);
}

}  // namespace trainrt

// Tensors for and from other libraries by DLPack 1.x, without a copy.
//
// The structs are declared here and defined nowhere in trainrt: DLPack's own header defines them
// for those who look inside, in the version that the program or the other library brings along, and
// whoever only passes pointers on needs no header at all. Within a major version the layout is
// fixed.
#ifndef TRAINRT_DLPACK_H_
#define TRAINRT_DLPACK_H_

#include <cstdint>

#include "trainrt/tensor.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace trainrt {

/// The tensor for another library: same bytes, row-major strides, on the CPU. The receiver calls
/// `deleter` once when it is done, from any thread; until then the bytes stay, whatever becomes of
/// the tensor. Throws Error(kInput) for an undefined tensor. An empty one has a null pointer.
DLManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor);
/// In the older form without a version, which e.g. a capsule called "dltensor" holds.
DLManagedTensor* to_dlpack(const Tensor& tensor);

/// When from_dlpack() copies.
enum class DlpackCopy : uint8_t {
  kNever,     // throw where the bytes cannot be shared
  kIfNeeded,  // copy what cannot be shared: strided, read-only or misaligned data
  kAlways,
};

/// A tensor of another library. On return `managed` belongs to trainrt: its deleter is called once,
/// when the last tensor that shares the bytes is gone, or at once where they were copied. When it
/// throws, `managed` is still the caller's.
///
/// Throws Error(kInput) for a null pointer, another major version than 1, a device that is not the
/// CPU, an element type without a DType (complex, float8, vectors), a malformed shape, and, with
/// kNever, for data that cannot be shared; each names what came. Error(kMemory) for a shape or copy
/// that is too large. An empty tensor needs no data, and shares none.
Tensor from_dlpack(DLManagedTensorVersioned* managed, DlpackCopy copy = DlpackCopy::kNever);
/// Flags are unknown in this form: the data counts as writable.
Tensor from_dlpack(DLManagedTensor* managed, DlpackCopy copy = DlpackCopy::kNever);

}  // namespace trainrt

#endif  // TRAINRT_DLPACK_H_

// Tensors for and from other libraries by DLPack 1.x, without a copy.
//
// The structs are declared here and defined nowhere in trainrt: DLPack's own header defines them
// for those who look inside, in the version that the program or the other library brings along, and
// whoever only passes pointers on needs no header at all. Within a major version the layout is
// fixed.
#ifndef TRAINRT_DLPACK_H_
#define TRAINRT_DLPACK_H_

#include <cstdint>
#include <string>

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
/// A tensor on an NVIDIA GPU, whose work on it must be done, is copied to the host unless kNever is
/// given.
///
/// Throws Error(kInput) for a null pointer, another major version than 1, a device that is neither
/// the CPU nor a GPU that this program can use (Error(kUnsupported)), an element type without a
/// DType (complex, float8, vectors), a malformed shape, and, with kNever, for data that cannot be
/// shared; each names what came. Error(kMemory) for a shape or copy that is too large. An empty
/// tensor needs no data, and shares none.
Tensor from_dlpack(DLManagedTensorVersioned* managed, DlpackCopy copy = DlpackCopy::kNever);
/// Flags are unknown in this form: the data counts as writable.
Tensor from_dlpack(DLManagedTensor* managed, DlpackCopy copy = DlpackCopy::kNever);

class Module;

/// A parameter or buffer where steps read and update it: on the GPU of a module that is there
/// (kDLCUDA), otherwise on the host. All work on it is done when this returns. What the receiver
/// writes counts from the next step on, unless the host reads or writes state in between; the
/// memory stays, but is no longer the module's, once the module moves to another device or type.
/// Throws Error(kUsage) for an unknown name, and for values that are stored in another type than
/// they are computed with.
DLManagedTensorVersioned* state_to_dlpack(const Module& module, const std::string& name);

}  // namespace trainrt

#endif  // TRAINRT_DLPACK_H_

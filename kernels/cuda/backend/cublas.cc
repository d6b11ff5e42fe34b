// Products by cuBLASLt, whose matrices are column-major: the transposed product of transposed
// operands, which is the same bytes.
#include <cublasLt.h>

#include "kernels/cuda/backend/check.h"
#include "kernels/cuda/backend/cuda_device.h"
#include "kernels/cuda/backend/libraries.h"

namespace trainrt::cuda {
namespace {

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const ErrorCode code =
      status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kMemory : ErrorCode::kRuntime;
  throw Error(code, std::string(call) + ": " + cublasLtGetStatusName(status) + " (" +
                        cublasLtGetStatusString(status) + ")");
}

#define TRAINRT_CUBLAS(call) check_cublas(call, #call)

cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kFloat64:
      return CUDA_R_64F;
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    default:
      throw Error(ErrorCode::kInternal, "cuBLASLt takes no " + std::string(dtype_name(type)));
  }
}

/// A descriptor of the library, destroyed at the end.
template <typename Handle, cublasStatus_t (*kDestroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle_ != nullptr) kDestroy(handle_);
  }
  Handle* out() { return &handle_; }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Matrix = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <typename T>
void set(const Description& description, cublasLtMatmulDescAttributes_t attribute, T value) {
  TRAINRT_CUBLAS(
      cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof(value)));
}

template <typename T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  TRAINRT_CUBLAS(
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)));
}

void describe(Matrix& matrix, DType type, bool transposed, int64_t rows, int64_t columns,
              int64_t row_length, int64_t batch, int64_t stride) {
  // As stored: `rows` x `columns` row-major, or the other way round when transposed.
  const auto stored_rows = static_cast<uint64_t>(transposed ? columns : rows);
  const auto stored_columns = static_cast<uint64_t>(transposed ? rows : columns);
  TRAINRT_CUBLAS(cublasLtMatrixLayoutCreate(matrix.out(), data_type(type), stored_columns,
                                            stored_rows, row_length));
  if (batch == 1) return;
  const auto count = static_cast<int32_t>(batch);
  TRAINRT_CUBLAS(cublasLtMatrixLayoutSetAttribute(matrix.get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                  &count, sizeof(count)));
  TRAINRT_CUBLAS(cublasLtMatrixLayoutSetAttribute(
      matrix.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)));
}

cublasLtEpilogue_t epilogue_of(gpu::Epilogue epilogue) {
  switch (epilogue) {
    case gpu::Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case gpu::Epilogue::kBiasGelu:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    default:
      return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

bool has_bias(gpu::Epilogue epilogue) {
  return epilogue != gpu::Epilogue::kNone && epilogue != gpu::Epilogue::kRelu;
}

class MatMul final : public gpu::LibraryCall {
 public:
  MatMul(cublasLtHandle_t handle, const gpu::MatMulCall& call)
      : handle_(handle), doubles_(call.c == DType::kFloat64), bias_(has_bias(call.epilogue)) {
    const cudaDataType_t scale = doubles_ ? CUDA_R_64F : CUDA_R_32F;
    const bool tf32 = call.products == gpu::Products::kTf32 && call.a == DType::kFloat32;
    const cublasComputeType_t compute = doubles_ ? CUBLAS_COMPUTE_64F
                                        : tf32   ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                 : CUBLAS_COMPUTE_32F;
    TRAINRT_CUBLAS(cublasLtMatmulDescCreate(description_.out(), compute, scale));
    set(description_, CUBLASLT_MATMUL_DESC_TRANSA, call.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(description_, CUBLASLT_MATMUL_DESC_TRANSB, call.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(call.epilogue));
    if (bias_) set(description_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, scale);
    describe(first_, call.b, call.trans_b, call.k, call.n, call.ldb, call.batch, call.stride_b);
    describe(second_, call.a, call.trans_a, call.m, call.k, call.lda, call.batch, call.stride_a);
    describe(result_, call.c, false, call.m, call.n, call.ldc, call.batch, call.stride_c);
  }

  /// Whether the library has a way.
  bool choose(const gpu::MatMulCall& call, size_t workspace) {
    Preference preference;
    TRAINRT_CUBLAS(cublasLtMatmulPreferenceCreate(preference.out()));
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
    // Not in place: partial sums are added in an order that does not change.
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE});
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(preference, attribute, static_cast<uint32_t>(call.alignment));
    }
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, description_.get(), first_.get(), second_.get(), result_.get(), result_.get(),
        preference.get(), 1, &choice_, &found);
    return status == CUBLAS_STATUS_SUCCESS && found > 0 && choice_.state == CUBLAS_STATUS_SUCCESS;
  }

  size_t workspace_bytes() const override { return choice_.workspaceSize; }

  void run(gpu::Stream& stream, const void* const* in, void* const* out,
           void* workspace) const override {
    const float one = 1, zero = 0;
    const double double_one = 1, double_zero = 0;
    if (bias_) set(description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, in[2]);
    TRAINRT_CUBLAS(cublasLtMatmul(
        handle_, description_.get(),
        doubles_ ? static_cast<const void*>(&double_one) : static_cast<const void*>(&one), in[1],
        first_.get(), in[0], second_.get(),
        doubles_ ? static_cast<const void*>(&double_zero) : static_cast<const void*>(&zero), out[0],
        result_.get(), out[0], result_.get(), &choice_.algo, workspace, choice_.workspaceSize,
        native(stream)));
  }

 private:
  cublasLtHandle_t handle_;
  bool doubles_, bias_;
  Description description_;
  Matrix first_, second_, result_;
  cublasLtMatmulHeuristicResult_t choice_{};
};

class Library final : public CublasLt {
 public:
  explicit Library(const gpu::Properties& device)
      : workspace_(device.major >= 9 ? size_t{32} << 20 : size_t{8} << 20) {
    TRAINRT_CUBLAS(cublasLtCreate(&handle_));
  }
  ~Library() override { cublasLtDestroy(handle_); }

  std::unique_ptr<gpu::LibraryCall> matmul(const gpu::MatMulCall& call, std::string* why) override {
    if (call.epilogue == gpu::Epilogue::kRelu || call.epilogue == gpu::Epilogue::kBiasRelu) {
      if (why != nullptr) *why = "what cuBLASLt's ReLU makes of NaN is not documented";
      return nullptr;
    }
    auto planned = std::make_unique<MatMul>(handle_, call);
    if (planned->choose(call, workspace_)) return planned;
    if (why != nullptr) *why = "cuBLASLt has no algorithm for this product";
    return nullptr;
  }

 private:
  size_t workspace_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace

std::unique_ptr<CublasLt> make_cublas(const gpu::Properties& device) {
  return std::make_unique<Library>(device);
}

}  // namespace trainrt::cuda

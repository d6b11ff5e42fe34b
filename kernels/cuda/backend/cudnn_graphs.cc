#include "kernels/cuda/backend/cudnn_graphs.h"

#include <cudnn_frontend.h>

#include <vector>

#include "trainrt/error.h"

namespace trainrt::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

void check_frontend(fe::error_t status, const char* what) {
  if (status.is_good()) return;
  throw Error(ErrorCode::kUnsupported, std::string("cuDNN: ") + what + ": " + status.get_message());
}

fe::DataType_t data_type(DType type) {
  switch (type) {
    case DType::kFloat32:
      return fe::DataType_t::FLOAT;
    case DType::kFloat16:
      return fe::DataType_t::HALF;
    case DType::kBFloat16:
      return fe::DataType_t::BFLOAT16;
    default:
      throw Error(ErrorCode::kUnsupported, "cuDNN takes no " + std::string(dtype_name(type)));
  }
}

/// Of a dense tensor [N, C, spatial…].
std::vector<int64_t> strides_of(const Shape& shape, bool channels_last) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = channels_last ? shape[1] : 1;
  for (size_t d = shape.size(); d-- > (channels_last ? 2 : 0);) {
    strides[d] = stride;
    stride *= shape[d];
  }
  if (channels_last) {
    strides[1] = 1;
    strides[0] = stride;
  }
  return strides;
}

/// One spatial dim becomes two: cuDNN starts there.
Shape widened(Shape shape) {
  if (shape.size() == 3) shape.insert(shape.begin() + 2, 1);
  return shape;
}

std::vector<int64_t> widened(std::vector<int64_t> spatial, int64_t filler) {
  if (spatial.size() == 1) spatial.insert(spatial.begin(), filler);
  return spatial;
}

}  // namespace

struct CudnnGraph::Impl {
  fe::graph::Graph graph;
  int64_t workspace = 0;
  int capability = 0;   // 0: that of the device
  bool strict = false;  // no tensor cores on float32

  explicit Impl(int sm) : capability(sm) {
    if (sm > 0) graph.set_sm_version(sm);
  }
  Tensor add(int64_t uid, const Shape& shape, const std::vector<int64_t>& strides, DType type) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_uid(uid)
                            .set_name("t" + std::to_string(uid))
                            .set_dim(shape)
                            .set_stride(strides)
                            .set_data_type(data_type(type)));
  }
  static void put_out(const Tensor& tensor, int64_t number, const Shape& shape,
                      const std::vector<int64_t>& strides, DType type) {
    tensor->set_output(true)
        .set_uid(kOutputs + number)
        .set_dim(shape)
        .set_stride(strides)
        .set_data_type(data_type(type));
  }
  /// Of the description, which may ask for the device.
  void validate() { check_frontend(graph.validate(), "the call is not valid"); }
  void choose_notes() {
    std::vector<fe::NumericalNote_t> refused = {fe::NumericalNote_t::NONDETERMINISTIC};
    if (strict) {
      refused.push_back(fe::NumericalNote_t::TENSOR_CORE);
      refused.push_back(fe::NumericalNote_t::DOWN_CONVERT_INPUTS);
      refused.push_back(fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION);
    }
    graph.deselect_numeric_notes(refused);
  }
};

Operands operands_of(const gpu::ConvCall& call) {
  return {call.pass == gpu::ConvPass::kForward && call.bias ? 3 : 2, 1};
}

Operands operands_of(const gpu::AttentionCall& call) {
  return call.backward ? Operands{6, 3} : Operands{3, 2};
}

CudnnGraph::CudnnGraph(const gpu::ConvCall& call, int capability)
    : impl_(std::make_unique<Impl>(capability)) {
  fe::graph::Graph& g = impl_->graph;
  g.set_intermediate_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
  impl_->strict = call.x_type == DType::kFloat32 && call.w_type == DType::kFloat32 &&
                  call.products == gpu::Products::kFloat32;
  const Shape x = widened(call.x), w = widened(call.w), y = widened(call.y);
  const auto xs = strides_of(x, call.channels_last), ws = strides_of(w, call.channels_last),
             ys = strides_of(y, call.channels_last);
  const auto stride = widened(call.strides, 1), dilation = widened(call.dilations, 1),
             before = widened(call.pads_begin, 0), after = widened(call.pads_end, 0);
  const auto described = [&](auto attributes) {
    return attributes.set_pre_padding(before)
        .set_post_padding(after)
        .set_stride(stride)
        .set_dilation(dilation);
  };
  switch (call.pass) {
    case gpu::ConvPass::kForward: {
      const Tensor a = impl_->add(0, x, xs, call.x_type), b = impl_->add(1, w, ws, call.w_type);
      Tensor result = g.conv_fprop(a, b, described(fe::graph::Conv_fprop_attributes()));
      if (call.bias) {
        Shape per_channel(y.size(), 1);
        per_channel[1] = y[1];
        result->set_dim(y).set_stride(ys);
        const Tensor bias = impl_->add(2, per_channel, strides_of(per_channel, call.channels_last),
                                       DType::kFloat32);
        result = g.pointwise(result, bias,
                             fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
      }
      if (call.relu) {
        result->set_dim(y).set_stride(ys);
        result = g.pointwise(
            result, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
      }
      Impl::put_out(result, 0, y, ys, call.y_type);
      break;
    }
    case gpu::ConvPass::kData: {
      const Tensor dy = impl_->add(0, y, ys, call.y_type), b = impl_->add(1, w, ws, call.w_type);
      const Tensor result = g.conv_dgrad(dy, b, described(fe::graph::Conv_dgrad_attributes()));
      Impl::put_out(result, 0, x, xs, call.x_type);
      break;
    }
    case gpu::ConvPass::kWeight: {
      const Tensor a = impl_->add(0, x, xs, call.x_type), dy = impl_->add(1, y, ys, call.y_type);
      const Tensor result = g.conv_wgrad(dy, a, described(fe::graph::Conv_wgrad_attributes()));
      Impl::put_out(result, 0, w, ws, call.w_type);
      break;
    }
  }
}

CudnnGraph::CudnnGraph(const gpu::AttentionCall& call, int capability)
    : impl_(std::make_unique<Impl>(capability)) {
  fe::graph::Graph& g = impl_->graph;
  g.set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT)
      .set_io_data_type(data_type(call.type));
  const Shape q{call.batch, call.heads, call.queries, call.size};
  const Shape k{call.batch, call.kv_heads, call.keys, call.size};
  const Shape v{call.batch, call.kv_heads, call.keys, call.value_size};
  const Shape y{call.batch, call.heads, call.queries, call.value_size};
  const Shape sums{call.batch, call.heads, call.queries, 1};
  const std::vector<int64_t> sum_strides{call.heads * call.queries, call.queries, 1, 1};
  const auto strides = [](const gpu::AttentionCall::Operand& o) {
    return std::vector<int64_t>{o.batch, o.head, o.token, 1};
  };
  const auto masked = [&](auto& attributes) {
    attributes.set_attn_scale(static_cast<float>(call.scale));
    // Query i sees keys up to i + keys - queries.
    if (call.causal && call.keys == call.queries) attributes.set_causal_mask(true);
    if (call.causal && call.keys != call.queries) attributes.set_causal_mask_bottom_right(true);
  };
  if (!call.backward) {
    const Tensor tq = impl_->add(0, q, strides(call.q), call.type),
                 tk = impl_->add(1, k, strides(call.k), call.type),
                 tv = impl_->add(2, v, strides(call.v), call.type);
    auto attributes = fe::graph::SDPA_attributes().set_name("sdpa").set_generate_stats(true);
    masked(attributes);
    const auto [result, stats] = g.sdpa(tq, tk, tv, attributes);
    Impl::put_out(result, 0, y, strides(call.y), call.type);
    Impl::put_out(stats, 1, sums, sum_strides, DType::kFloat32);
  } else {
    const Tensor tdy = impl_->add(0, y, strides(call.dy), call.type),
                 tq = impl_->add(1, q, strides(call.q), call.type),
                 tk = impl_->add(2, k, strides(call.k), call.type),
                 tv = impl_->add(3, v, strides(call.v), call.type),
                 ty = impl_->add(4, y, strides(call.y), call.type),
                 stats = impl_->add(5, sums, sum_strides, DType::kFloat32);
    auto attributes = fe::graph::SDPA_backward_attributes()
                          .set_name("sdpa_backward")
                          .set_deterministic_algorithm(true);
    masked(attributes);
    const auto [dq, dk, dv] = g.sdpa_backward(tq, tk, tv, ty, tdy, stats, attributes);
    Impl::put_out(dq, 0, q, strides(call.dq), call.type);
    Impl::put_out(dk, 1, k, strides(call.dk), call.type);
    Impl::put_out(dv, 2, v, strides(call.dv), call.type);
  }
}

CudnnGraph::~CudnnGraph() = default;

void CudnnGraph::plan(cudnnHandle_t handle) {
  fe::graph::Graph& g = impl_->graph;
  impl_->validate();
  check_frontend(g.build_operation_graph(handle), "the call cannot be expressed");
  check_frontend(g.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}),
                 "there is no engine");
  impl_->choose_notes();
  check_frontend(g.check_support(), "no engine runs the call");
  check_frontend(g.build_plans(), "no engine could be set up");
  impl_->workspace = g.get_workspace_size();
}

size_t CudnnGraph::workspace_bytes() const { return static_cast<size_t>(impl_->workspace); }

void CudnnGraph::run(cudnnHandle_t handle, std::unordered_map<int64_t, void*>& tensors,
                     void* workspace) const {
  fe::error_t status = impl_->graph.execute(handle, tensors, workspace);
  if (status.is_bad()) throw Error(ErrorCode::kRuntime, "cuDNN: " + status.get_message());
}

int64_t CudnnGraph::engines_without_device() {
  // An H100's numbers with another capability: heuristics go by the capability first.
  const std::string json =
      R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
      R"("regsPerBlock":65536,"multiProcessorCount":132,"smClockRateKHz":1980000,)"
      R"("memClockRateKHz":2619000,"l2CacheSize":52428800,"warpSize":32,)"
      R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
      R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"pciDeviceId":0,)"
      R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"totalGlobalMem":85899345920,"driverVer":13000,"cudaDeviceId":0,)"
      R"("deviceName":"NVIDIA","deviceVer":)" +
      std::to_string(10 * impl_->capability) + "}";
  const auto device = std::make_shared<fe::DeviceProperties>();
  check_frontend(device->deserialize(std::vector<uint8_t>(json.begin(), json.end())),
                 "properties of a device");
  fe::graph::Graph& g = impl_->graph;
  g.set_device_properties(device);
  impl_->validate();
  check_frontend(g.build_operation_graph(), "the call cannot be expressed");
  check_frontend(g.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}),
                 "there is no engine");
  impl_->choose_notes();
  check_frontend(g.check_support(), "no engine runs the call");
  return g.get_execution_plan_count();
}

}  // namespace trainrt::cuda

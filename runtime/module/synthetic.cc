#include <map>

#include "kernels/philox.h"
#include "runtime/session.h"
#include "trainrt/module.h"

namespace trainrt {
namespace {

constexpr int64_t kSmallDim = 8, kImageSide = 32;

// Sizes of free dims: a symbol has one size wherever it stands.
std::map<std::string, int64_t> symbol_sizes(const std::vector<Port>& ports, int64_t batch,
                                            const std::map<std::string, Shape>& shapes) {
  std::map<std::string, int64_t> sizes;
  for (const Port& port : ports) {
    const auto given = shapes.find(port.name);
    for (size_t i = 0; given != shapes.end() && i < port.dims.size(); ++i) {
      const Dim& dim = port.dims[i];
      if (dim.size < 0 && !dim.symbol.empty() && i < given->second.size()) {
        sizes.emplace(dim.symbol, given->second[i]);
      }
    }
  }
  for (const Port& port : ports) {
    if (!port.dims.empty() && port.dims[0].size < 0 && !port.dims[0].symbol.empty()) {
      sizes.emplace(port.dims[0].symbol, batch);
    }
  }
  return sizes;
}

// A sequence gets two entries.
std::vector<std::string> names_of(const Port& port) {
  if (port.kind == PortKind::kTensor || port.kind == PortKind::kOptional) return {port.name};
  return {entry_name(port.name, 0), entry_name(port.name, 1)};
}

Tensor made_up(DType type, const Shape& shape, const Philox& random) {
  const bool floats = is_float(type);
  Tensor value(floats ? DType::kFloat64 : DType::kInt64, shape);
  for (int64_t i = 0; i < value.size(); ++i) {
    const uint32_t word = philox_word(random, static_cast<uint64_t>(i));
    if (floats) {
      // Four uniform bytes make a bell curve of variance 1: no tails, but no infinities either.
      const double sum = (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24);
      value.data<double>()[static_cast<size_t>(i)] = (sum - 510) / 147.8;
    } else {
      // Lone integers are sizes and lengths more often than ids.
      value.data<int64_t>()[static_cast<size_t>(i)] = value.size() == 1 ? 1 : word & 1;
    }
  }
  return value.dtype() == type ? value : value.to(type);
}

}  // namespace

TensorMap synthetic_inputs(const Module& module, int64_t batch, uint64_t seed,
                           const std::map<std::string, Shape>& shapes) {
  if (batch < 1) throw Error(ErrorCode::kUsage, "the batch size must be 1 or more");
  const std::vector<Port>& ports = module.session()->model().inputs();
  for (const auto& [name, shape] : shapes) {
    bool known = false;
    for (const Port& port : ports) known |= port.name == name;
    if (!known) throw Error(ErrorCode::kUsage, "the model has no input '" + name + "'");
  }
  std::map<std::string, int64_t> sizes = symbol_sizes(ports, batch, shapes);
  TensorMap inputs;
  uint32_t stream = 0;
  for (const Port& port : ports) {
    Shape shape;
    if (const auto given = shapes.find(port.name); given != shapes.end()) {
      shape = given->second;
    } else if (!port.has_shape) {
      throw Error(ErrorCode::kUsage, "input " + port.name + " declares no shape: give one, as in " +
                                         port.name + "=8,3");
    } else {
      for (size_t i = 0; i < port.dims.size(); ++i) {
        const Dim& dim = port.dims[i];
        const bool spatial = port.dims.size() >= 4 && i >= 2;
        const int64_t made_up = i == 0 ? batch : spatial ? kImageSide : kSmallDim;
        shape.push_back(dim.size >= 0        ? dim.size
                        : dim.symbol.empty() ? made_up
                                             : sizes.emplace(dim.symbol, made_up).first->second);
      }
    }
    for (const std::string& name : names_of(port)) {
      const DType type = is_float(port.dtype) ? module.options().dtype : port.dtype;
      inputs[name] = made_up(type, shape, Philox{seed, 0, stream++});
    }
  }
  return inputs;
}

}  // namespace trainrt

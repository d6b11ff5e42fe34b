#include "tests/conformance/case.h"

#include <onnx/onnx-data_pb.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "frontend/decode.h"

namespace trainrt::conformance {
namespace {

namespace fs = std::filesystem;

template <typename Proto>
Proto parse(const fs::path& path) {
  Proto proto;
  std::ifstream in(path, std::ios::binary);
  if (!in || !proto.ParseFromIstream(&in)) {
    throw Error(ErrorCode::kFile, path.string() + ": cannot be read");
  }
  return proto;
}

void put(const std::string& name, onnx::TensorProto proto, TensorMap* values) {
  Stored stored = TensorReader(".").take(proto);
  if (!stored.value.defined()) {
    throw Error(ErrorCode::kInput, name + " is a " + stored.unsupported);
  }
  (*values)[name] = std::move(stored.value);
}

void put(const std::string& name, const onnx::SequenceProto& proto, TensorMap* values) {
  if (proto.elem_type() > onnx::SequenceProto::TENSOR) {
    throw Error(ErrorCode::kInput, name + " is a sequence of other things than tensors");
  }
  for (int i = 0; i < proto.tensor_values_size(); ++i) {
    put(name + "[" + std::to_string(i) + "]", proto.tensor_values(i), values);
  }
}

void put(const std::string& name, const onnx::OptionalProto& proto, TensorMap* values) {
  if (proto.has_tensor_value()) put(name, proto.tensor_value(), values);
  if (proto.has_sequence_value()) put(name, proto.sequence_value(), values);
}

/// The files of older releases hold bfloat16 as uint16.
void restore_bfloat16(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& infos,
                      TensorMap* values) {
  for (const onnx::ValueInfoProto& info : infos) {
    const auto it = values->find(info.name());
    if (it == values->end() || it->second.dtype() != DType::kUInt16 ||
        info.type().tensor_type().elem_type() != onnx::TensorProto::BFLOAT16) {
      continue;
    }
    const Tensor bits = it->second;
    it->second = Tensor(DType::kBFloat16, bits.shape());
    if (bits.bytes() > 0) std::memcpy(it->second.raw(), bits.raw(), bits.bytes());
  }
}

TensorMap read_values(const fs::path& folder, const std::string& kind,
                      const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& infos) {
  TensorMap values;
  for (int i = 0; i < infos.size(); ++i) {
    const fs::path path = folder / (kind + "_" + std::to_string(i) + ".pb");
    if (!fs::exists(path)) break;
    const onnx::ValueInfoProto& info = infos[i];
    if (info.type().has_sequence_type()) {
      put(info.name(), parse<onnx::SequenceProto>(path), &values);
    } else if (info.type().has_optional_type()) {
      put(info.name(), parse<onnx::OptionalProto>(path), &values);
    } else if (info.type().has_tensor_type()) {
      put(info.name(), parse<onnx::TensorProto>(path), &values);
    } else {
      throw Error(ErrorCode::kInput, info.name() + " is no tensor, sequence or optional");
    }
  }
  restore_bfloat16(infos, &values);
  return values;
}

/// i / n for i in [0, n), as ONNX's own runner makes it.
Tensor ramp(const onnx::TypeProto::Tensor& type) {
  Shape shape;
  for (const auto& dim : type.shape().dim()) {
    shape.push_back(dim.has_dim_value() ? dim.dim_value() : 1);
  }
  Tensor t(DType::kFloat32, shape);
  for (int64_t i = 0; i < t.size(); ++i) {
    t.data<float>()[static_cast<size_t>(i)] =
        static_cast<float>(static_cast<double>(i) / static_cast<double>(t.size()));
  }
  return t;
}

DataSet made_up_data(const Case& c, const onnx::ModelProto& model) {
  DataSet data;
  std::set<std::string> stored;
  for (const onnx::TensorProto& t : model.graph().initializer()) stored.insert(t.name());
  for (const onnx::ValueInfoProto& info : model.graph().input()) {
    if (!stored.contains(info.name())) data.inputs[info.name()] = ramp(info.type().tensor_type());
  }
  const std::string prefix = c.model.stem().string() + "_output";
  data.outputs = read_values(c.outputs_beside, prefix, model.graph().output());
  return data;
}

Case make_case(const fs::path& folder, const fs::path& root) {
  Case c;
  c.name = (folder.parent_path().filename() / folder.filename()).string();
  c.model = folder / "model.onnx";
  if (fs::exists(folder / "data.json")) {
    std::ifstream in(folder / "data.json");
    const nlohmann::json json = nlohmann::json::parse(in);
    c.tolerance.relative = json.value("rtol", c.tolerance.relative);
    c.tolerance.absolute = json.value("atol", c.tolerance.absolute);
    if (json.contains("url")) {  // "onnx/backend/test/data/light/NAME.onnx"
      c.outputs_beside = root / "light";
      c.model = c.outputs_beside / fs::path(json["url"].get<std::string>()).filename();
    }
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) c.data_sets.push_back(entry.path());
  }
  std::sort(c.data_sets.begin(), c.data_sets.end());
  return c;
}

}  // namespace

std::vector<Case> find_cases(const fs::path& folder) {
  std::vector<Case> cases;
  for (const auto& kind : fs::directory_iterator(folder)) {
    if (!kind.is_directory()) continue;
    for (const auto& entry : fs::directory_iterator(kind.path())) {
      if (entry.is_directory()) cases.push_back(make_case(entry.path(), folder));
    }
  }
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

onnx::ModelProto read_model(const Case& c) { return parse<onnx::ModelProto>(c.model); }

std::vector<DataSet> read_data(const Case& c, const onnx::ModelProto& model) {
  if (!c.outputs_beside.empty()) return {made_up_data(c, model)};
  std::vector<DataSet> sets;
  for (const fs::path& folder : c.data_sets) {
    sets.push_back({read_values(folder, "input", model.graph().input()),
                    read_values(folder, "output", model.graph().output())});
  }
  return sets;
}

}  // namespace trainrt::conformance

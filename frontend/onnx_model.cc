#include "frontend/onnx_model.h"

#include <filesystem>
#include <utility>

#include "frontend/decode.h"
#include "frontend/import.h"
#include "frontend/imported.h"
#include "frontend/listing.h"
#include "frontend/specialize.h"
#include "frontend/splice.h"
#include "frontend/state_layout.h"
#include "frontend/tied_weights.h"
#include "frontend/writer.h"

namespace trainrt {

struct OnnxModel::Impl {
  std::unique_ptr<ImportedModel> model;
  std::vector<WeightInfo> parameters, buffers, others;
  std::map<std::string, size_t> by_name;  // into model->weights
  StateLayout layout;

  void index() {
    layout = make_state_layout(*model);
    for (size_t i = 0; i < model->weights.size(); ++i) {
      const ImportedWeight& w = model->weights[i];
      if (!w.stored.value.defined()) continue;
      if (w.is_float) {
        by_name[w.info.name] = i;
      } else {
        by_name.emplace(w.info.name, i);
      }
      if (!w.is_float) continue;
      if (w.use == WeightUse::kParameter) {
        parameters.push_back(w.info);
      } else if (w.use == WeightUse::kBuffer) {
        buffers.push_back(w.info);
      } else if (!w.info.shape.empty()) {
        others.push_back(w.info);
      }
    }
  }
};

OnnxModel::OnnxModel() : impl_(std::make_unique<Impl>()) {}
OnnxModel::OnnxModel(OnnxModel&&) noexcept = default;
OnnxModel& OnnxModel::operator=(OnnxModel&&) noexcept = default;
OnnxModel::~OnnxModel() = default;

OnnxModel OnnxModel::load(const std::string& path, const LoadOptions& options) {
  OnnxModel result;
  auto model = std::make_unique<ImportedModel>();
  parse_model_file(path, &model->proto);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  result.impl_->model = import_model(std::move(model), path, folder.empty() ? "." : folder);
  find_tied_weights(*result.impl_->model, options.tie_weights);
  result.impl_->index();
  return result;
}

OnnxModel OnnxModel::from_bytes(std::span<const char> bytes, const std::string& folder,
                                const LoadOptions& options) {
  OnnxModel result;
  auto model = std::make_unique<ImportedModel>();
  parse_model_bytes(bytes, &model->proto);
  result.impl_->model = import_model(std::move(model), "model", folder);
  find_tied_weights(*result.impl_->model, options.tie_weights);
  result.impl_->index();
  return result;
}

const std::vector<Port>& OnnxModel::inputs() const { return impl_->model->inputs; }
const std::vector<Port>& OnnxModel::outputs() const { return impl_->model->outputs; }
const std::vector<WeightInfo>& OnnxModel::parameters() const { return impl_->parameters; }
const std::vector<WeightInfo>& OnnxModel::buffers() const { return impl_->buffers; }
const std::vector<WeightInfo>& OnnxModel::other_weights() const { return impl_->others; }
const std::vector<ModuleInfo>& OnnxModel::modules() const { return impl_->model->modules; }
const StateLayout& OnnxModel::state_layout() const { return impl_->layout; }

Tensor OnnxModel::weight(const std::string& name) const {
  const auto it = impl_->by_name.find(name);
  if (it == impl_->by_name.end()) {
    throw Error(ErrorCode::kInput, "the model has no weight '" + name + "'");
  }
  return impl_->model->weights[it->second].stored.value;
}

int64_t OnnxModel::opset(const std::string& domain) const {
  const auto it = impl_->model->opsets.find(domain == "ai.onnx" ? "" : domain);
  return it == impl_->model->opsets.end() ? 0 : it->second;
}

std::map<std::string, int64_t> OnnxModel::op_counts() const { return impl_->model->op_counts; }
const std::vector<std::string>& OnnxModel::warnings() const { return impl_->model->warnings; }
std::string OnnxModel::text() const { return list_model(*impl_->model); }

Specialized OnnxModel::specialize(const std::map<std::string, InputBinding>& inputs,
                                  const SpecializeOptions& options, const Evaluator& evaluator,
                                  Diagnostics& problems, const Contents& contents) const {
  return specialize_model(*impl_->model, inputs, options, evaluator, problems, contents);
}

OnnxModel OnnxModel::with_submodule(const std::string& target, const OnnxModel& part) const {
  OnnxModel result;
  auto model = std::make_unique<ImportedModel>();
  model->proto = splice(*impl_->model, target, *part.impl_->model);
  result.impl_->model = import_model(std::move(model), "model", ".");
  result.impl_->index();
  return result;
}

ModelInfo OnnxModel::info() const {
  const onnx::ModelProto& proto = impl_->model->proto;
  ModelInfo info;
  info.name = proto.graph().name();
  info.doc = proto.doc_string();
  info.producer = proto.producer_name();
  info.producer_version = proto.producer_version();
  info.domain = proto.domain();
  info.model_version = proto.model_version();
  info.ir_version = proto.ir_version();
  info.opsets = impl_->model->opsets;
  for (const auto& p : proto.metadata_props()) info.metadata[p.key()] = p.value();
  info.op_counts = op_counts();
  info.graph = text();
  return info;
}

void OnnxModel::save(const std::string& path, const std::map<std::string, Tensor>& values) const {
  std::map<std::string, Tensor> all = values;
  for (const ImportedWeight& w : impl_->model->weights) {
    if (w.use != WeightUse::kTied) continue;
    const auto one = values.find(impl_->model->weights[static_cast<size_t>(w.tied_to)].info.name);
    if (one == values.end()) continue;
    all[w.info.name] = w.tied_transposed ? transposed(one->second) : one->second;
  }
  write_model(*impl_->model, path, all);
}

}  // namespace trainrt

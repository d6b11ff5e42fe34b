#include "runtime/cli/batch_source.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "autodiff/loss.h"
#include "kernels/philox.h"
#include "runtime/cli/report.h"
#include "trainrt/error.h"
#include "trainrt/trainer.h"

namespace trainrt::cli {
namespace {

constexpr int64_t kDefaultBatch = 32;

int64_t parse_count(const std::string& text, const char* option) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    throw Error(ErrorCode::kUsage,
                std::string(option) + ": a number from 1 expected, found '" + text + "'");
  }
  return value;
}

/// The only dim that all inputs fix for the first axis; 0 when it is free.
int64_t fixed_batch(const Module& module) {
  for (const PortInfo& input : module.inputs()) {
    if (input.has_shape && !input.dims.empty() && input.dims[0] > 0) return input.dims[0];
  }
  return 0;
}

/// The port's name; of a sequence the names of the entries that the data hold, of an optional its
/// name if they hold it.
void add_names(const PortInfo& port, const std::vector<std::string>& fields,
               std::vector<std::string>* names) {
  if (!port.sequence && !port.optional) {
    names->push_back(port.name);
    return;
  }
  for (const std::string& field : fields) {
    const size_t slash = field.find('/');
    const std::string name = slash == std::string::npos || field.starts_with(port.name)
                                 ? field
                                 : field.substr(slash + 1);
    if (port.sequence ? name.starts_with(port.name + "[") : name == port.name) {
      names->push_back(name);
    }
  }
}

ImageOptions image_options(const Module& module, const DataArgs& args) {
  ImageOptions out;
  for (const PortInfo& input : module.inputs()) {
    if (!is_float(input.dtype) || input.dims.size() != 4) continue;
    const auto is_channels = [](int64_t dim) { return dim == 1 || dim == 3; };
    out.channels_last = !is_channels(input.dims[1]) && is_channels(input.dims[3]);
    const size_t spatial = out.channels_last ? 1 : 2;
    out.channels = input.dims[out.channels_last ? 3 : 1];
    if (out.channels < 0) out.channels = 3;
    out.height = std::max<int64_t>(input.dims[spatial], 0);
    out.width = std::max<int64_t>(input.dims[spatial + 1], 0);
    break;
  }
  if (!args.image_size.empty()) {
    out.resize = true;
    const size_t x = args.image_size.find('x');
    out.height = parse_count(args.image_size.substr(0, x), "--image-size");
    out.width = x == std::string::npos ? out.height
                                       : parse_count(args.image_size.substr(x + 1), "--image-size");
  }
  for (const double v : parse_numbers(args.mean, "--mean")) {
    out.mean.push_back(static_cast<float>(v));
  }
  for (const double v : parse_numbers(args.std, "--std")) {
    if (v == 0) throw Error(ErrorCode::kUsage, "--std: 0 is no deviation");
    out.std.push_back(static_cast<float>(v));
  }
  std::string rest = args.augment;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string word = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    if (word != "flip" && word != "crop") {
      throw Error(ErrorCode::kUsage, "--augment: flip and crop are known, not '" + word + "'");
    }
    (word == "flip" ? out.flip : out.crop) = true;
  }
  return out;
}

/// Integer inputs with values of LO..HI.
void redraw_integers(const std::string& range, uint64_t seed, TensorMap* inputs) {
  const size_t dots = range.find("..");
  const std::string last = dots == std::string::npos ? range : range.substr(dots + 2);
  const std::vector<double> lo = parse_numbers(range.substr(0, dots), "--int-range"),
                            hi = parse_numbers(last, "--int-range");
  if (lo.size() != 1 || hi.size() != 1 || !(hi[0] >= lo[0]) || std::abs(lo[0]) > 1e15 ||
      hi[0] > 1e15) {
    throw Error(ErrorCode::kUsage, "--int-range: LO..HI expected, found '" + range + "'");
  }
  const auto first = static_cast<int64_t>(lo[0]);
  const auto span = static_cast<uint64_t>(static_cast<int64_t>(hi[0]) - first) + 1;
  uint32_t stream = 0;
  for (auto& [name, tensor] : *inputs) {
    ++stream;
    if (!is_integer(tensor.dtype())) continue;
    const Philox philox{seed, 0, stream};
    Tensor values(DType::kInt64, tensor.shape());
    uint64_t i = 0;
    for (int64_t& v : values.data<int64_t>()) {
      v = first + static_cast<int64_t>(philox_word(philox, i++) % span);
    }
    tensor = values.to(tensor.dtype());
  }
}

/// Features whose names told nothing may differ from the input by axes of length 1 or flattening.
Tensor fit_features(const Tensor& array, const PortInfo& port) {
  if (!port.has_shape || array.rank() == 0 || port.dims.empty()) return array;
  if (array.rank() == static_cast<int64_t>(port.dims.size())) return array;
  Shape shape = {array.shape()[0]};
  for (size_t d = 1; d < port.dims.size(); ++d) {
    if (port.dims[d] < 0) return array;
    shape.push_back(port.dims[d]);
  }
  return element_count(shape) == array.size() ? array.reshape(shape) : array;
}

}  // namespace

BatchSource::BatchSource(const Module& module, const DataArgs& args, const TensorMap& fixed,
                         const SourceOptions& options)
    : module_(module) {
  DataOptions data;
  data.target_column = args.target_column;
  data.image = image_options(module, args);
  data.classes = options.classes;
  dataset_ = open_dataset(options.spec, data);
  if (!dataset_->classes().empty() && options.classes.empty()) {
    std::string text;
    for (size_t i = 0; i < dataset_->classes().size() && i < 20; ++i) {
      text += (i > 0 ? ", " : "") + std::to_string(i) + "=" + dataset_->classes()[i];
    }
    if (dataset_->classes().size() > 20) text += ", …";
    note("classes of '" + options.spec + "': " + text);
  }

  FieldRequest request;
  request.fields = dataset_->fields();
  for (const PortInfo& input : module.inputs()) {
    if (!fixed.contains(input.name)) add_names(input, request.fields, &request.inputs);
  }
  for (const PortInfo& output : module.outputs()) {
    add_names(output, request.fields, &request.outputs);
  }
  request.source = "'" + options.spec + "'";
  request.targets = options.targets;
  request.output_grads = options.output_grads;
  fields_ = match_fields(request);
  for (const std::string& text : fields_.notes) note(text);

  LoaderOptions loader;
  loader.shuffle = options.shuffle;
  loader.augment = options.augment;
  loader.drop_last = options.drop_last;
  loader.seed = options.seed;
  loader.whole = options.batch == "all";
  if (!loader.whole) {
    const int64_t fixed_size = fixed_batch(module), samples = dataset_->size();
    loader.batch = !options.batch.empty() ? parse_count(options.batch, "--batch")
                   : fixed_size > 0       ? fixed_size
                                          : kDefaultBatch;
    loader.batch =
        fixed_size > 0 ? loader.batch : std::min(loader.batch, std::max<int64_t>(samples, 1));
    if (fixed_size > 0 && samples % loader.batch != 0 && !loader.drop_last) {
      loader.drop_last = true;
      note("the model fixes batches of " + std::to_string(fixed_size) + ": the last " +
           std::to_string(samples % loader.batch) + " samples of " + request.source +
           " are left out");
    }
    batch_size_ = loader.batch;
  }
  loader_ = std::make_unique<Loader>(*dataset_, loader);
}

TensorMap BatchSource::rename(TensorMap arrays) const {
  TensorMap out;
  for (auto& [field, array] : arrays) {
    const auto name = fields_.names.find(field);
    if (name == fields_.names.end()) continue;
    if (fields_.guessed.contains(name->second)) {
      for (const PortInfo& port : module_.inputs()) {
        if (port.name == name->second) array = fit_features(array, port);
      }
    }
    out[name->second] = std::move(array);
  }
  return out;
}

TensorMap BatchSource::batch(int64_t epoch, int64_t index) {
  return rename(loader_->batch(epoch, index));
}

TensorMap BatchSource::whole_batch() { return rename(dataset_->whole()); }

TensorMap made_up_inputs(const Module& module, const DataArgs& args, uint64_t seed,
                         const TensorMap& fixed) {
  if (args.batch == "all") {
    throw Error(ErrorCode::kUsage, "--batch all needs --data");
  }
  const std::map<std::string, Shape> shapes = args.parsed_shapes();
  for (const auto& [name, shape] : shapes) {
    const auto same = [&name = name](const PortInfo& port) { return port.name == name; };
    if (std::none_of(module.inputs().begin(), module.inputs().end(), same)) {
      throw Error(ErrorCode::kUsage, "--shape: the model has no input '" + name + "'");
    }
  }
  const int64_t batch = args.batch.empty() ? 1 : parse_count(args.batch, "--batch");
  TensorMap inputs = synthetic_inputs(module, batch, seed, shapes);
  if (!args.int_range.empty()) redraw_integers(args.int_range, seed, &inputs);
  std::string text;
  for (const auto& [name, tensor] : inputs) {
    if (fixed.contains(name)) continue;
    text += (text.empty() ? "" : ", ") + name + std::string(" ") +
            std::string(dtype_name(tensor.dtype())) + to_string(tensor.shape());
  }
  for (const auto& [name, tensor] : fixed) inputs.erase(name);
  note("no --data: made-up inputs " + text);
  return inputs;
}

std::vector<std::string> default_losses(const TensorMap& batch) {
  std::vector<std::string> losses;
  for (const auto& [name, tensor] : batch) {
    if (name != "target" && !name.starts_with("target/")) continue;
    const bool integers = !is_float(tensor.dtype());
    std::string loss = integers ? "cross_entropy" : "mse";
    if (name != "target") loss += ":" + name.substr(7);
    note("no --loss: " + loss + ", since the target holds " +
         (integers ? "integers" : "floating-point numbers"));
    losses.push_back(std::move(loss));
  }
  if (losses.empty()) {
    throw Error(ErrorCode::kUsage,
                "the data has no array 'target'; add one, or give --loss sum or --loss mean");
  }
  return losses;
}

void fit_column_targets(const Module& module, const std::vector<std::string>& losses,
                        TensorMap* batch) {
  for (const std::string& text : losses) {
    const LossSpec spec = parse_loss(text);
    if (!needs_target(spec.kind) || target_is_class_ids(spec.kind)) continue;
    for (const PortInfo& output : module.outputs()) {
      if (!spec.output.empty() ? output.name != spec.output : !is_float(output.dtype)) continue;
      auto target = batch->find("target/" + output.name);
      if (target == batch->end()) target = batch->find("target");
      if (target != batch->end() && target->second.rank() == 1 && output.dims.size() == 2 &&
          output.dims[1] == 1) {
        target->second = target->second.reshape({target->second.size(), 1});
      }
      break;
    }
  }
}

}  // namespace trainrt::cli

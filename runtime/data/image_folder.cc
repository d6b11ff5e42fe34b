#include "runtime/data/image_folder.h"

#include <algorithm>
#include <climits>
#include <exception>
#include <filesystem>

#include "kernels/philox.h"
#include "runtime/data/file.h"
#include "trainrt/error.h"

#define STBI_MAX_DIMENSIONS 65536
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_HDR
#define STBI_NO_PSD
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#include <stb/stb_image.h>
#define STB_IMAGE_RESIZE_STATIC
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#include <stb/stb_image_resize2.h>
#pragma GCC diagnostic pop

namespace trainrt {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kAugmentStream = 0x41554731;

bool is_image(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  for (const char* known : {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tga", ".pgm", ".ppm"}) {
    if (extension == known) return true;
  }
  return false;
}

using Pixels = std::vector<uint8_t>;

/// height x width x channels.
Pixels decode(const std::string& path, const ImageOptions& options) {
  const std::string bytes = read_file(path);
  const auto fail = [&](const char* why) {
    throw Error(ErrorCode::kFile, "image '" + path + "' cannot be decoded: " + (why ? why : "?"));
  };
  if (bytes.size() > INT_MAX) fail("too large");
  const auto* packed = reinterpret_cast<const stbi_uc*>(bytes.data());
  const auto size = static_cast<int>(bytes.size());
  int width = 0, height = 0, found = 0;
  const auto channels = static_cast<int>(options.channels);
  if (!stbi_info_from_memory(packed, size, &width, &height, &found)) fail(stbi_failure_reason());
  // A tiny file may claim huge dims: nothing that large is a training image.
  if (int64_t{width} * height > (int64_t{1} << 28)) fail("more than 2^28 pixels");
  stbi_uc* pixels = stbi_load_from_memory(packed, size, &width, &height, &found, channels);
  if (pixels == nullptr) fail(stbi_failure_reason());
  Pixels out(static_cast<size_t>(options.height * options.width * channels));
  const auto to_width = static_cast<int>(options.width),
             to_height = static_cast<int>(options.height);
  bool resized = true;
  if (width == to_width && height == to_height) {
    std::copy(pixels, pixels + out.size(), out.begin());
  } else {
    resized = stbir_resize_uint8_linear(pixels, width, height, 0, out.data(), to_width, to_height,
                                        0, static_cast<stbir_pixel_layout>(channels)) != nullptr;
  }
  stbi_image_free(pixels);
  if (!resized) fail("resizing failed");
  return out;
}

struct Placement {
  bool flip = false;
  int64_t dy = 0, dx = 0;  // the image is moved by so many pixels; what is laid bare becomes 0
};

/// Writes one sample: [0,1], normalised, in the model's layout.
void place(const Pixels& pixels, const ImageOptions& o, const Placement& p, float* out) {
  for (int64_t c = 0; c < o.channels; ++c) {
    const auto pick = [&](const std::vector<float>& values, float otherwise) {
      if (values.empty()) return otherwise;
      return values.size() == 1 ? values[0] : values[static_cast<size_t>(c)];
    };
    const float mean = pick(o.mean, 0.0f), deviation = pick(o.std, 1.0f);
    for (int64_t y = 0; y < o.height; ++y) {
      for (int64_t x = 0; x < o.width; ++x) {
        const int64_t from_y = y - p.dy, shifted = x - p.dx;
        const int64_t from_x = p.flip ? o.width - 1 - shifted : shifted;
        const bool inside = from_y >= 0 && from_y < o.height && from_x >= 0 && from_x < o.width;
        const float value =
            inside ? (pixels[static_cast<size_t>((from_y * o.width + from_x) * o.channels + c)] /
                          255.0f -
                      mean) /
                         deviation
                   : 0.0f;
        const int64_t at =
            o.channels_last ? (y * o.width + x) * o.channels + c : (c * o.height + y) * o.width + x;
        out[at] = value;
      }
    }
  }
}

Shape sample_shape(const ImageOptions& o) {
  return o.channels_last ? Shape{o.height, o.width, o.channels}
                         : Shape{o.channels, o.height, o.width};
}

class ImageFolder final : public Dataset {
 public:
  ImageFolder(const std::string& path, const DataOptions& options) : image_(options.image) {
    std::vector<std::pair<std::string, fs::path>> folders;
    for (const auto& entry : fs::directory_iterator(path)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_directory() && !name.starts_with('.')) folders.emplace_back(name, entry.path());
    }
    std::sort(folders.begin(), folders.end());
    for (const auto& [name, folder] : folders) classes_.push_back(name);
    const std::vector<std::string>& wanted = options.classes.empty() ? classes_ : options.classes;
    for (const auto& [name, folder] : folders) {
      const auto at = std::lower_bound(wanted.begin(), wanted.end(), name);
      if (at == wanted.end() || *at != name) {
        throw Error(ErrorCode::kInput, "'" + path + "': class folder '" + name +
                                           "' does not occur in the training data");
      }
      std::vector<std::string> files;
      for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.is_regular_file() && is_image(entry.path())) {
          files.push_back(entry.path().string());
        }
      }
      std::sort(files.begin(), files.end());
      labels_.insert(labels_.end(), files.size(), at - wanted.begin());
      paths_.insert(paths_.end(), files.begin(), files.end());
    }
    classes_ = wanted;
    if (paths_.empty()) {
      throw Error(ErrorCode::kFile, "'" + path +
                                        "' holds no class folders with images (png, jpg, bmp, gif, "
                                        "tga, pgm, ppm)");
    }
  }

  int64_t size() const override { return static_cast<int64_t>(paths_.size()); }
  std::vector<std::string> fields() const override { return {"data", "target"}; }

  TensorMap whole() const override {
    std::vector<int64_t> all(paths_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    return batch(all, {});
  }

  TensorMap batch(std::span<const int64_t> indices, const BatchContext& context) const override {
    Shape shape = sample_shape(image_);
    const int64_t row = element_count(shape);
    const auto count = static_cast<int64_t>(indices.size());
    shape.insert(shape.begin(), count);
    Tensor data(DType::kFloat32, shape);
    Tensor target(DType::kInt64, {count});
    std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < count; ++i) {
      try {
        const int64_t sample = indices[static_cast<size_t>(i)];
        place(decode(paths_.at(static_cast<size_t>(sample)), image_), image_, draw(sample, context),
              static_cast<float*>(data.raw()) + i * row);
        static_cast<int64_t*>(target.raw())[i] = labels_[static_cast<size_t>(sample)];
      } catch (...) {
#pragma omp critical
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
    return {{"data", data}, {"target", target}};
  }

 private:
  Placement draw(int64_t sample, const BatchContext& context) const {
    Placement p;
    if (!context.augment) return p;
    const Philox philox{context.seed, static_cast<uint64_t>(context.epoch), kAugmentStream};
    const auto words = philox(static_cast<uint64_t>(sample));
    p.flip = image_.flip && (words[0] & 1) != 0;
    if (image_.crop) {
      const auto shift = [](uint32_t word, int64_t size) {
        const int64_t reach = size / 8;
        return static_cast<int64_t>(to_uniform(word) * static_cast<double>(2 * reach + 1)) - reach;
      };
      p.dy = shift(words[1], image_.height);
      p.dx = shift(words[2], image_.width);
    }
    return p;
  }

  ImageOptions image_;
  std::vector<std::string> paths_;
  std::vector<int64_t> labels_;
};

}  // namespace

Tensor read_image(const std::string& path, const ImageOptions& options) {
  Tensor out(DType::kFloat32, sample_shape(options));
  place(decode(path, options), options, {}, out.data<float>().data());
  return out;
}

std::unique_ptr<Dataset> open_image_folder(const std::string& path, const DataOptions& options) {
  const ImageOptions& image = options.image;
  if (image.height <= 0 || image.width <= 0 || image.height > 16384 || image.width > 16384) {
    throw Error(ErrorCode::kUsage,
                "'" + path + "': the model leaves the size of images open; give --image-size HxW");
  }
  if (image.channels != 1 && image.channels != 3) {
    throw Error(ErrorCode::kInput, "'" + path + "': images have 1 or 3 channels, the model wants " +
                                       std::to_string(image.channels));
  }
  for (const auto* values : {&image.mean, &image.std}) {
    if (values->size() > 1 && values->size() != static_cast<size_t>(image.channels)) {
      throw Error(ErrorCode::kUsage, "--mean and --std take one number, or one per channel (" +
                                         std::to_string(image.channels) + ")");
    }
  }
  return std::make_unique<ImageFolder>(path, options);
}

}  // namespace trainrt

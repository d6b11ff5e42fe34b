// Folders of class folders of images.
#ifndef TRAINRT_RUNTIME_DATA_IMAGE_FOLDER_H_
#define TRAINRT_RUNTIME_DATA_IMAGE_FOLDER_H_

#include <memory>
#include <string>

#include "runtime/data/dataset.h"

namespace trainrt {

/// Each folder inside `path` is a class (ids in sorted order), its image files (png, jpg, bmp, gif,
/// tga, pnm) are samples. Images are decoded when asked for, scaled to the size that
/// options.image names, to [0, 1], then by mean and std. Augmentation draws from (seed, epoch,
/// sample). Fields "data" and "target". Throws Error(kUsage) without a size.
std::unique_ptr<Dataset> open_image_folder(const std::string& path, const DataOptions& options);

/// One image file as float32, as open_image_folder prepares it; without augmentation.
Tensor read_image(const std::string& path, const ImageOptions& options);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_DATA_IMAGE_FOLDER_H_

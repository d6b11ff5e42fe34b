#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/source.h"

namespace trainrt::cuda {

TRAINRT_KERNEL(fill, FillArguments) {
  const i64 packs = args.bytes / 16;
  const Pack<u64, 2> pattern{{args.pattern, args.pattern}};
  Pack<u64, 2>* y = static_cast<Pack<u64, 2>*>(args.y);
  for (i64 i = global_index(); i < packs; i += global_size()) y[i] = pattern;
  const i64 rest = packs * 16 + global_index();
  if (rest < args.bytes) {
    static_cast<u8*>(args.y)[rest] = static_cast<u8>(args.pattern >> (8 * (rest % 8)));
  }
}

}  // namespace trainrt::cuda

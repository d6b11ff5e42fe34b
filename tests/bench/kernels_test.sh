#!/usr/bin/env bash
# Every case of the kernel benchmarks has a row; how fast they are is nothing that a test decides.
set -euo pipefail
list=$("$1" --benchmark_list_tests=true)
for wanted in matmul_1024x1024x256/ conv3x3_64_at_56/onednn conv3x3_64_at_56_blocked/.*winograd depthwise3x3_144_at_56_blocked/ \
  batch_norm_relu_blocked/ batch_norm_relu_grad/ attention/ attention_grad/ layer_norm/ layer_norm_grad/ fused_ sgd/ adamw/; do
  grep -q "^$wanted" <<< "$list" || { echo "no benchmark $wanted among"; echo "$list"; exit 1; }
done
"$1" --benchmark_filter='^(layer_norm|adamw|conv3x3_256_at_14_blocked)/' --benchmark_min_time=0.001

#!/usr/bin/env bash
# From a fresh Debian machine to a trained model: installs what is missing, builds the program, trains
# an exported CNN on real handwritten digits and checks it on images it has not seen.
set -euo pipefail
cd "$(dirname "$0")"
out=${1:-trained.onnx}

./setup.sh
echo "quickstart: building //runtime/cli:trainrt (a few minutes the first time)"
bazel build -c opt //runtime/cli:trainrt
trainrt=bazel-bin/runtime/cli/trainrt

echo "quickstart: training examples/digits/digits.onnx on 1,437 handwritten digits, testing on 360 others"
"$trainrt" run examples/digits/digits.onnx \
  --data examples/digits/train.npz --val examples/digits/val.npz \
  --loss cross_entropy --optimizer adamw --lr 2e-3 --epochs 12 --batch 32 --seed 1 --out "$out"

echo
echo "The trained model is $out: the same ONNX file with new weights. What to try next:"
echo "  $trainrt inspect $out                      # its modules and parameters"
echo "  $trainrt eval $out --data examples/digits/val.npz --loss cross_entropy"
echo "  $trainrt check YOUR_MODEL.onnx             # can trainrt train it?"
echo "  $trainrt run YOUR_MODEL.onnx               # ten steps on made-up data"
echo "  $trainrt run --help                        # all options; docs/guide.md explains them"

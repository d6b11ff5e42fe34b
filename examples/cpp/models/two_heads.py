#!/usr/bin/env python3
"""Makes two_heads.onnx again: needs torch and onnx.

A CNN for the digits data (examples/digits) with random weights and two results: scores of the ten
classes, and a number for how much ink there is in the image."""
import io
import pathlib

import onnx
import torch
import torch.nn.functional as F
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.classes = nn.Linear(16 * 2 * 2, 10)
        self.ink = nn.Linear(16 * 2 * 2, 1)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.classes(x), self.ink(x).squeeze(1)


torch.manual_seed(0)
names = ["x", "logits", "ink"]
file = io.BytesIO()
torch.onnx.export(TwoHeads().train(), (torch.zeros(2, 1, 8, 8),), file, dynamo=False,
                  opset_version=17, training=torch.onnx.TrainingMode.TRAINING,
                  do_constant_folding=False, input_names=names[:1], output_names=names[1:],
                  dynamic_axes={name: {0: "batch"} for name in names})
model = onnx.load_from_string(file.getvalue())
for node in model.graph.node:
    node.doc_string = ""  # where in the program it came from
onnx.save(model, pathlib.Path(__file__).parent / "two_heads.onnx")

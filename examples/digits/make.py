#!/usr/bin/env python3
"""Makes the files of this folder again: needs numpy, scikit-learn and torch (and onnx).

digits.onnx is a LeNet-like CNN with random weights, exported by PyTorch in training mode. The images
are shuffled once, with a fixed seed, and split into 1,437 for training and 360 for validation."""
import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.norm = nn.BatchNorm2d(32)
        self.fc1 = nn.Linear(32 * 2 * 2, 64)
        self.drop = nn.Dropout(0.2)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.norm(self.conv2(x))), 2)
        return self.fc2(self.drop(F.relu(self.fc1(x.flatten(1)))))


digits = load_digits()
order = np.random.RandomState(0).permutation(len(digits.target))
x = (digits.images / 16.0).astype(np.float32)[:, None][order]
y = digits.target.astype(np.int64)[order]
np.savez_compressed("train.npz", x=x[:1437], target=y[:1437])
np.savez_compressed("val.npz", x=x[1437:], target=y[1437:])

torch.manual_seed(0)
net = Net().train()
torch.onnx.export(net, (torch.zeros(2, 1, 8, 8),), "digits.onnx", dynamo=False, opset_version=17,
                  training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=["x"],
                  output_names=["logits"], dynamic_axes={"x": {0: "batch"}, "logits": {0: "batch"}})

#!/usr/bin/env python3
"""Makes char_lm.onnx again: needs torch and onnx.

A small GPT with random weights over 96 characters (newline and the bytes 32 to 126): ids [n,48] ->
logits [n,48,96]. The embedding is the output projection too."""
import io
import pathlib

import onnx
import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 96, 48, 48, 4, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).split(WIDTH, 2)
        q, k, v = (t.reshape(-1, CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(-1, CONTEXT, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        self.drop = nn.Dropout(0.05)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids):
        x = self.drop(self.tokens(ids) + self.positions)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


torch.manual_seed(0)
file = io.BytesIO()
torch.onnx.export(Gpt().train(), (torch.zeros(2, CONTEXT, dtype=torch.long),), file, dynamo=False,
                  opset_version=17, training=torch.onnx.TrainingMode.TRAINING,
                  do_constant_folding=False, input_names=["ids"], output_names=["logits"],
                  dynamic_axes={"ids": {0: "batch"}, "logits": {0: "batch"}})
model = onnx.load_from_string(file.getvalue())
for node in model.graph.node:
    node.doc_string = ""  # where in the program it came from
onnx.save(model, pathlib.Path(__file__).parent / "char_lm.onnx")

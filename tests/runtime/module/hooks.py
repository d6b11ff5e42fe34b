"""Writes hooks_script.onnx, hooks_dynamo.onnx and hooks.npz: one model by both of PyTorch's exporters, and what
PyTorch's hooks on every module see, in the order of their calls.

An encoder is called twice, an activation twice in each call, and two more encoders follow. Events are "pre M",
"post M", "bpre M", "back M"; eI_aK are the arguments (or gradients of outputs) of event I, eI_bK the outputs (or
gradients of inputs). What is None is left out.
"""
import pathlib

import numpy as np
import onnx
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(4, 4)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        self.act = nn.Tanh()
        self.drop = nn.Dropout(0.5)
        self.norm = nn.LayerNorm(4, eps=2**-17)  # the file holds it in float32

    def forward(self, x):
        return self.norm(self.drop(self.act(self.net(self.act(self.l1(x))))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = Encoder()
        self.blocks = nn.ModuleList([Encoder(), Encoder()])
        self.head = nn.Linear(4, 2)

    def forward(self, a, b):
        x = self.enc(a) * self.enc(b)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main():
    folder = pathlib.Path(__file__).parent
    torch.manual_seed(3)
    model = Model()
    for p in model.parameters():  # equal weights would be stored once
        nn.init.normal_(p, std=0.5)
    args = (torch.randn(3, 4), torch.randn(3, 4))
    names = dict(input_names=["a", "b"], output_names=["y"])
    torch.onnx.export(model.train(), args, folder / "hooks_script.onnx", dynamo=False, opset_version=17,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, **names)
    torch.onnx.export(model, args, folder / "hooks_dynamo.onnx", dynamo=True, external_data=False, **names)
    exported = onnx.load(folder / "hooks_dynamo.onnx")
    for node in exported.graph.node:  # paths of the machine that exported
        kept = [p for p in node.metadata_props if p.key != "pkg.torch.onnx.stack_trace"]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(exported, folder / "hooks_dynamo.onnx")

    model = model.double().eval()
    order, arrays = [], {}

    def note(kind, name, first, second):
        for letter, values in (("a", first), ("b", second)):
            values = values if isinstance(values, tuple) else (values,)
            for k, v in enumerate(values):
                if v is not None:
                    arrays[f"e{len(order)}_{letter}{k}"] = v.detach().numpy().copy()
        order.append(f"{kind} {name}")

    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList):
            continue
        module.register_forward_pre_hook(lambda m, i, n=name: note("pre", n, i, ()))
        module.register_forward_hook(lambda m, i, o, n=name: note("post", n, i, o))
        module.register_full_backward_pre_hook(lambda m, g, n=name: note("bpre", n, g, ()))
        module.register_full_backward_hook(lambda m, i, o, n=name: note("back", n, o, i))
    a, b = (t.double() for t in args)
    a.requires_grad_(True)
    b.requires_grad_(True)
    y = model(a, b)
    dy = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).reshape(y.shape)
    y.backward(dy)
    arrays.update(a=a.detach().numpy(), b=b.detach().numpy(), dy=dy.numpy(),
                  order=np.frombuffer("\n".join(order).encode(), dtype=np.uint8))
    for name, p in model.named_parameters():
        arrays["grad/" + name] = p.grad.numpy()
    np.savez(folder / "hooks.npz", **arrays)


main()

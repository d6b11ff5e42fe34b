#!/usr/bin/env python3
"""Makes NAME.onnx and NAME.npz of this folder again: needs numpy, onnx, onnxscript and torch.

    make.py [NAME...]

Each case is a small torch module with random weights, exported in float32. What trainrt has to
reproduce comes from the module itself in float64: torch.autograd's gradients and ten steps of
torch.optim. Arrays: in/<input>, target or target/<output>, loss, out/<output>, grad/<parameter>,
losses_sgd (lr 0.05), losses_adamw (lr 1e-3), buffer/<name> (running statistics after the ten steps
of SGD). Numbers in the modules are exact in float32 (scales are powers of two and so on), because
the file holds them so and float64 results are compared to 1e-9."""
import copy
import io
import pathlib
import sys

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn

HERE = pathlib.Path(__file__).parent
LR_SGD, LR_ADAMW, STEPS = 0.05, 1e-3, 10


# ---- modules

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 24)
        self.fc2 = nn.Linear(24, 16)
        self.slope = nn.PReLU(16, 0.25)
        self.fc3 = nn.Linear(16, 4)

    def forward(self, x):
        return self.fc3(self.slope(self.fc2(torch.tanh(self.fc1(x)))))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 8, 5)
        self.fc1 = nn.Linear(32, 20)
        self.fc2 = nn.Linear(20, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.avg_pool2d(torch.sigmoid(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def batch_norm(channels):
    return nn.BatchNorm2d(channels, momentum=0.25)


class ResidualBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = batch_norm(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = batch_norm(cout)
        self.down = nn.Identity()
        if stride != 1 or cin != cout:
            self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), batch_norm(cout))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.down(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, 1, 1)
        self.bn = batch_norm(6)
        self.layer1 = ResidualBlock(6, 6, 1)
        self.layer2 = ResidualBlock(6, 10, 2)
        self.fc = nn.Linear(10, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.stem(x))), 3, 2, 1)
        return self.fc(self.layer2(self.layer1(x)).mean((2, 3)))


class InvertedResidual(nn.Module):
    def __init__(self, cin, cout, stride, expand):
        super().__init__()
        hidden = cin * expand
        self.residual = stride == 1 and cin == cout
        self.layers = nn.Sequential(
            nn.Conv2d(cin, hidden, 1, bias=False), batch_norm(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), batch_norm(hidden),
            nn.ReLU6(), nn.Conv2d(hidden, cout, 1, bias=False), batch_norm(cout))

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), batch_norm(8), nn.ReLU6(),
            InvertedResidual(8, 8, 1, 2), InvertedResidual(8, 12, 2, 3))
        self.classifier = nn.Linear(12, 6)

    def forward(self, x):
        # Scaled so that both bounds of ReLU6 are crossed.
        return self.classifier(F.adaptive_avg_pool2d(self.features(4.0 * x), 1).flatten(1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(2, 8, 3, padding=1)
        self.norm1 = nn.GroupNorm(4, 8)
        self.middle = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.norm2 = nn.GroupNorm(2, 8)
        self.bottom = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.up1 = nn.ConvTranspose2d(8, 8, 3, stride=2, padding=1, output_padding=1)
        self.up2 = nn.Conv2d(16, 6, 1)
        self.head = nn.Conv2d(14, 3, 3, padding=1)

    def forward(self, x):
        a = F.relu(self.norm1(self.down(x)))
        b = F.silu(self.norm2(self.middle(a)))
        c = F.elu(self.bottom(b))
        d = self.up2(torch.cat([b, self.up1(c)], 1))
        e = F.interpolate(d, scale_factor=2.0, mode="bilinear", align_corners=False)
        f = F.interpolate(F.interpolate(e, scale_factor=2.0, mode="nearest"), scale_factor=0.5,
                          mode="nearest")
        return self.head(torch.cat([a, f], 1))


class Conv1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(2, 8, 3, dilation=2, padding=2)
        self.conv2 = nn.Conv1d(8, 12, 4, stride=2, padding=1, groups=2)
        self.norm = nn.InstanceNorm1d(12, affine=True)
        self.up = nn.ConvTranspose1d(12, 3, 4, stride=2, padding=1)

    def forward(self, x):
        x = F.leaky_relu(self.conv1(F.pad(x, (2, 2), mode="reflect")), 0.125)
        return self.up(F.softplus(self.norm(self.conv2(x))))[:, :, 2:-2]


class Conv3d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv3d(1, 4, 3, padding=1)
        self.conv2 = nn.Conv3d(4, 6, (1, 3, 2), stride=(1, 2, 1))
        self.fc = nn.Linear(6, 1)

    def forward(self, x):
        x = F.max_pool3d(F.relu(self.conv1(x)), (1, 2, 2))
        return self.fc(F.relu(self.conv2(x)).mean((2, 3, 4))).squeeze(1)


class SelfAttention(nn.Module):
    """Heads of width 4, so that the scale is 1/2."""

    def __init__(self, width, causal=False):
        super().__init__()
        self.heads, self.causal = width // 4, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, bias=None):
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, 4).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) * 0.5
        if self.causal:
            hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        if bias is not None:
            scores = scores + bias
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, c))


class Block(nn.Module):
    """Pre-norm (GPT, ViT) or post-norm (BERT) transformer block."""

    def __init__(self, width, attention, post_norm=False):
        super().__init__()
        self.post_norm = post_norm
        self.ln1 = nn.LayerNorm(width)
        self.attn = attention
        self.ln2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def mlp(self, x):
        return self.fc2(F.gelu(self.fc1(x)))

    def forward(self, x, *args):
        if self.post_norm:
            x = self.ln1(x + self.attn(x, *args))
            return self.ln2(x + self.mlp(x))
        x = x + self.attn(self.ln1(x), *args)
        return x + self.mlp(self.ln2(x))


class Gpt(nn.Module):
    """The output matrix is the token embedding."""

    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(14, 12)
        self.wpe = nn.Embedding(8, 12)
        self.blocks = nn.ModuleList([Block(12, SelfAttention(12, causal=True)) for _ in range(2)])
        self.ln_f = nn.LayerNorm(12)
        self.head = nn.Linear(12, 14, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


class SdpaAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (f(x).view(n, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, scale=0.25)
        return self.out(y.transpose(1, 2).reshape(n, t, c))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 12, 4, 4)
        self.cls = nn.Parameter(torch.zeros(1, 1, 12))
        self.position = nn.Parameter(torch.zeros(1, 5, 12))
        self.blocks = nn.Sequential(*[Block(12, SdpaAttention(12, 2)) for _ in range(2)])
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(15, 12, padding_idx=0)
        self.positions = nn.Embedding(7, 12)
        self.kinds = nn.Embedding(2, 12)
        self.ln = nn.LayerNorm(12, eps=2.0**-40)
        self.layers = nn.ModuleList([Block(12, SelfAttention(12), post_norm=True) for _ in range(2)])
        self.transform = nn.Linear(12, 12)
        self.decoder = nn.Linear(12, 15)

    def forward(self, ids, mask, kinds):
        bias = (1.0 - mask[:, None, None, :].to(self.ln.weight.dtype)) * -10000.0
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1])) + self.kinds(kinds)
        x = self.ln(x)
        for layer in self.layers:
            x = layer(x, bias)
        return self.decoder(torch.tanh(self.transform(x)))


class CharModel(nn.Module):
    def __init__(self, kind, hidden, **options):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.rnn = kind(6, hidden, batch_first=True, **options)
        self.head = nn.Linear(hidden * (2 if options.get("bidirectional") else 1), 11)

    def forward(self, ids):
        return self.head(self.rnn(self.embedding(ids))[0])


class TwoOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(5, 16)
        self.classes = nn.Linear(16, 3)
        self.value = nn.Linear(16, 2)

    def forward(self, x):
        x = F.hardswish(self.body(x) * 2.0)
        return self.classes(x), self.value(x).clamp(-0.75, 0.75)


class EinsumAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(8, 2, 4) / 2) for _ in range(3))
        self.wo = nn.Parameter(torch.randn(2, 4, 8) / 2)
        self.bilinear = nn.Parameter(torch.randn(3, 8, 8) / 4)

    def forward(self, x, y):
        q = torch.einsum("btc,chd->bhtd", x, self.wq)
        k = torch.einsum("bsc,chd->bhsd", y, self.wk)
        v = torch.einsum("bsc,chd->bhsd", y, self.wv)
        a = torch.einsum("bhtd,bhsd->bhts", q, k).mul(0.5).softmax(-1)
        z = torch.einsum("bhts,bhsd,hdc->btc", a, v, self.wo)
        return torch.einsum("bti,oij,btj->bo", z, self.bilinear, x)


class OldCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, stride=2)
        self.fc = nn.Linear(54, 7)

    def forward(self, x):
        x = F.pad(F.relu(self.conv(x)), (0, 1, 1, 0))
        x = F.max_pool2d(x, 2, stride=1)
        x = torch.cat([x[:, :2], x[:, 2:].abs().add(1.0).log()], 1)
        return F.log_softmax(self.fc(x.reshape(x.size(0), -1)), dim=1)


# ---- exports

def script(module, inputs, outputs, opset, training=True, dynamic=True):
    """The TorchScript exporter. Not training: as an inference export, constants folded."""
    file = io.BytesIO()
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    names = list(inputs) + outputs
    torch.onnx.export(module, tuple(inputs.values()), file, dynamo=False, opset_version=opset,
                      training=mode, do_constant_folding=not training, input_names=list(inputs),
                      output_names=outputs,
                      dynamic_axes={name: {0: "batch"} for name in names} if dynamic else None)
    return onnx.load_from_string(file.getvalue())


def dynamo(module, inputs, outputs, opset, dynamic=True, optimize=True):
    shapes = tuple({0: torch.export.Dim("batch", min=2)} for _ in inputs) if dynamic else None
    program = torch.onnx.export(module, tuple(inputs.values()), dynamo=True, opset_version=opset,
                                optimize=optimize, dynamic_shapes=shapes, verbose=False,
                                input_names=list(inputs), output_names=outputs)
    return program.model_proto


def strip(model):
    """Takes out texts about the exporting program's source lines."""
    def graph(g):
        g.doc_string = ""
        for node in g.node:
            node.doc_string = ""
            kept = [p for p in node.metadata_props if not p.key.endswith("stack_trace")]
            del node.metadata_props[:]
            node.metadata_props.extend(kept)
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    graph(attribute.g)
    graph(model.graph)
    for function in model.functions:
        for node in function.node:
            del node.metadata_props[:]
    return model


# ---- truth

def term_loss(name, y, target):
    if name in ("cross_entropy", "nll"):
        if y.dim() == 3:
            y = y.transpose(1, 2)
        return F.cross_entropy(y, target) if name == "cross_entropy" else F.nll_loss(y, target)
    return {"mse": F.mse_loss, "l1": F.l1_loss, "huber": F.huber_loss,
            "bce_with_logits": F.binary_cross_entropy_with_logits}[name](y, target)


def total_loss(terms, outputs, targets):
    total = 0.0
    for name, output, weight in terms:
        target = targets["target"] if "target" in targets else targets["target/" + output]
        total = total + weight * term_loss(name, outputs[output], target)
    return total


def train(module, optimizer, call, terms, targets):
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = total_loss(terms, call(module), targets)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    return np.array(losses)


def follow_statistics(module):
    """Running statistics as ONNX defines them: with the population variance."""
    running = {}
    for name, layer in module.named_modules():
        if not isinstance(layer, nn.BatchNorm2d):
            continue
        running[name + ".running_mean"] = layer.running_mean.clone()
        running[name + ".running_var"] = layer.running_var.clone()

        def update(layer, args, name=name):
            with torch.no_grad():
                var, mean = torch.var_mean(args[0], (0, 2, 3), correction=0)
                running[name + ".running_mean"].lerp_(mean, layer.momentum)
                running[name + ".running_var"].lerp_(var, layer.momentum)
        layer.register_forward_pre_hook(update)
    return running


def file_names(model, tensors):
    """Name in the file -> (name in the module, whether the file has it transposed), by value."""
    found = {}
    for initializer in model.graph.initializer:
        value = numpy_helper.to_array(initializer)
        for name, tensor in tensors.items():
            plain = tensor.detach().numpy()
            if value.dtype != np.float32 or value.ndim == 0:
                continue
            if np.array_equal(value, plain):
                found[initializer.name] = (name, False)
            elif plain.ndim == 2 and np.array_equal(value, plain.T):
                found[initializer.name] = (name, True)
    names = [name for name, _ in found.values()]
    missing = sorted(set(tensors) - set(names))
    assert not missing and len(set(names)) == len(names), f"missing {missing}, found {found}"
    return found


def make(name, build, inputs, targets, terms, export):
    torch.manual_seed(sum(map(ord, name)))
    module = build().train()
    with torch.no_grad():  # no two alike, and nothing at a special value
        for tensor in list(module.parameters()) + list(module.buffers()):
            if tensor.is_floating_point() and tensor.dim() < 4:
                tensor.add_(0.125 * torch.randn_like(tensor))
                if tensor.dim() == 1 and (tensor > 0.5).all():
                    tensor.abs_()
    torch_inputs = {key: torch.from_numpy(value) for key, value in inputs.items()}
    outputs = [output for _, output, _ in terms]
    model = strip(export(copy.deepcopy(module), torch_inputs, outputs))
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, HERE / f"{name}.onnx")

    exact_inputs = [x.double() if x.is_floating_point() else x for x in torch_inputs.values()]
    exact_targets = {key: torch.from_numpy(value.astype(np.float64) if value.dtype.kind == "f" else value)
                     for key, value in targets.items()}

    def call(m):
        result = m(*exact_inputs)
        return dict(zip(outputs, result if isinstance(result, tuple) else (result,)))

    names = file_names(model, dict(module.named_parameters()))
    exact = module.double()
    arrays = {f"in/{key}": value for key, value in inputs.items()} | targets
    first = copy.deepcopy(exact)
    result = call(first)
    loss = total_loss(terms, result, exact_targets)
    loss.backward()
    arrays["loss"] = np.array(loss.item())
    for key, value in result.items():
        arrays[f"out/{key}"] = value.detach().numpy()
    gradients = {key: p.grad.numpy() for key, p in first.named_parameters()}
    for key, (original, transposed) in names.items():
        gradient = gradients[original]
        arrays[f"grad/{key}"] = np.ascontiguousarray(gradient.T if transposed else gradient)

    sgd = copy.deepcopy(exact)
    running = follow_statistics(sgd)
    arrays["losses_sgd"] = train(sgd, torch.optim.SGD(sgd.parameters(), lr=LR_SGD), call, terms,
                                 exact_targets)
    adamw = copy.deepcopy(exact)
    arrays["losses_adamw"] = train(adamw, torch.optim.AdamW(adamw.parameters(), lr=LR_ADAMW), call,
                                   terms, exact_targets)
    if running:
        buffers = {k: v.float() for k, v in exact.named_buffers() if v.is_floating_point()}
        for key, (original, _) in file_names(model, buffers).items():
            arrays[f"buffer/{key}"] = running[original].numpy()
    np.savez(HERE / f"{name}.npz", **arrays)
    sizes = [(HERE / f"{name}{ending}").stat().st_size // 1024 for ending in (".onnx", ".npz")]
    print(f"{name}: {len(names)} parameters, loss {arrays['losses_sgd'][0]:.4f} -> "
          f"{arrays['losses_sgd'][-1]:.4f}, {arrays['losses_adamw'][-1]:.4f}; {sizes} KiB")
    assert max(sizes) < 64


# ---- cases

def random_for(name):
    return np.random.RandomState(sum(map(ord, name)))


def cases():
    """Name -> (module, inputs, targets, loss terms, export)."""
    def floats(r, *shape):
        return r.standard_normal(shape).astype(np.float32)

    def ids(r, high, *shape):
        return r.randint(0, high, shape).astype(np.int64)

    def classes(name, x_shape, count, build, export, target_shape=None, loss="cross_entropy"):
        r = random_for(name)
        return (build, {"x": floats(r, *x_shape)}, {"target": ids(r, count, *(target_shape or x_shape[:1]))},
                [(loss, "y", 1.0)], export)

    def text(name, vocabulary, build, export, shape=(3, 6)):
        r = random_for(name)
        return (build, {"ids": ids(r, vocabulary, *shape)}, {"target": ids(r, vocabulary, *shape)},
                [("cross_entropy", "logits", 1.0)], export)

    def numbers(name, x_shape, y_shape, loss, build, export, binary=False):
        r = random_for(name)
        target = ids(r, 2, *y_shape).astype(np.float32) if binary else floats(r, *y_shape)
        return build, {"x": floats(r, *x_shape)}, {"target": target}, [(loss, "y", 1.0)], export

    def exporter(function, opset, **options):
        return lambda module, inputs, outputs: function(module, inputs, outputs, opset, **options)

    def eval_dynamo(module, inputs, outputs):
        return dynamo(module.eval(), inputs, outputs, 18, optimize=False)

    r = random_for("bert")
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int64)
    bert_target = ids(r, 15, 3, 5)
    bert_target[mask == 0] = -100
    bert_target[0, :2] = -100
    bert = (Bert, {"ids": ids(r, 15, 3, 5) * mask, "mask": mask, "kinds": ids(r, 2, 3, 5)},
            {"target": bert_target}, [("cross_entropy", "logits", 1.0)],
            exporter(script, 20, training=False))
    r = random_for("two_outputs")
    two = (TwoOutputs, {"x": floats(r, 9, 5)},
           {"target/classes": ids(r, 3, 9), "target/value": floats(r, 9, 2)},
           [("cross_entropy", "classes", 0.75), ("mse", "value", 0.25)], exporter(script, 14))
    r = random_for("einsum")
    einsum = (EinsumAttention, {"x": floats(r, 2, 4, 8), "memory": floats(r, 2, 6, 8)},
              {"target": floats(r, 2, 3)}, [("huber", "y", 1.0)], exporter(script, 17))
    return {
        "mlp": classes("mlp", (8, 6), 4, Mlp, exporter(script, 17)),
        "lenet": classes("lenet", (4, 1, 16, 16), 10, LeNet, exporter(script, 11)),
        "resnet_op13": classes("resnet", (4, 3, 12, 12), 5, ResNet, exporter(script, 13)),
        "resnet_op17": classes("resnet", (5, 3, 11, 9), 5, ResNet, exporter(script, 17)),
        "mobilenet_eval": classes("mobilenet", (4, 3, 10, 10), 6, MobileNet, eval_dynamo),
        "unet": classes("unet", (2, 2, 8, 8), 3, UNet, exporter(script, 17), (2, 8, 8)),
        "conv1d": numbers("conv1d", (3, 2, 12), (3, 3, 12), "l1", Conv1d, exporter(script, 16)),
        "conv3d": numbers("conv3d", (4, 1, 3, 7, 6), (4,), "bce_with_logits", Conv3d,
                          exporter(script, 12), True),
        "gpt_script": text("gpt", 14, Gpt, exporter(script, 20)),
        "gpt_dynamo": text("gpt", 14, Gpt, exporter(dynamo, 20, dynamic=False)),
        "vit_dynamo": classes("vit", (3, 3, 8, 8), 5, Vit, exporter(dynamo, 20)),
        "bert_script": bert,
        "lstm": text("lstm", 11, lambda: CharModel(nn.LSTM, 7, num_layers=2), exporter(script, 17)),
        "gru": text("gru", 11, lambda: CharModel(nn.GRU, 6, bidirectional=True), exporter(script, 14)),
        "two_outputs": two,
        "einsum": einsum,
        "cnn_op9": classes("cnn", (5, 1, 7, 7), 7, OldCnn, exporter(script, 9), loss="nll"),
    }


if __name__ == "__main__":
    for case_name, parts in cases().items():
        if len(sys.argv) == 1 or case_name in sys.argv[1:]:
            make(case_name, *parts)

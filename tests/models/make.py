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

sys.dont_write_bytecode = True
from modules import (Bert, CharModel, Conv1d, Conv3d, EinsumAttention, Gpt, LeNet, Mlp, MobileNet,
                     OldCnn, ResNet, TwoOutputs, UNet, Vit)

HERE = pathlib.Path(__file__).parent
LR_SGD, LR_ADAMW, STEPS = 0.05, 1e-3, 10


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
    """Takes out all texts but the modules' names: most are about the exporting program's source."""
    def keep_names(item):
        item.doc_string = ""
        kept = [p for p in item.metadata_props if p.key.endswith("name_scopes")]
        del item.metadata_props[:]
        item.metadata_props.extend(kept)

    def graph(g):
        keep_names(g)
        for item in [*g.value_info, *g.input, *g.output, *g.initializer, *g.node]:
            keep_names(item)
        for node in g.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    graph(attribute.g)
    graph(model.graph)
    assert not model.functions
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
    # An export in training mode runs the module once, which moves its running statistics.
    stored = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer}
    statistics = {k: v for k, v in module.named_buffers() if v.is_floating_point()}
    for key, buffer in statistics.items():
        buffer.copy_(torch.from_numpy(stored[key].copy()))
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
    for key, value in running.items():
        arrays[f"buffer/{key}"] = value.numpy()
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

    def text(name, vocabulary, build, export, shape=(3, 8)):
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
        "gpt_script": text("gpt", 14, lambda: Gpt(True), exporter(script, 20)),
        "gpt_dynamo": text("gpt", 14, lambda: Gpt(False), exporter(dynamo, 20, dynamic=False)),
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

"""One entry, one exporter: model.onnx, batch.npz, module.npz (torch's own gradients) and meta.json in a folder."""
import copy
import json
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn

OPSETS = {"script": 17, "dynamo": 20}
BATCH_NORMS = nn.modules.batchnorm._BatchNorm
CLASSES = ("cross_entropy", "nll")


def still(module):
    """No dropout of any kind: every run gives the same numbers."""
    for part in module.modules():
        for name, value in vars(part).items():
            if isinstance(value, float) and (name == "p" or "drop" in name):
                setattr(part, name, 0.0)
    return module


def disturb(module):
    """No two weights alike, and none at the zeros and ones they start with: those hide mistakes."""
    with torch.no_grad():
        for tensor in module.parameters():
            if not tensor.is_floating_point() or tensor.numel() == 0:
                continue
            flat = tensor.numel() == 1 or float(tensor.std()) == 0.0
            if tensor.dim() < 2 or flat:
                positive = bool((tensor > 0.5).all())
                tensor.add_(0.1 * torch.randn_like(tensor))
                if positive:
                    tensor.abs_()
            else:
                tensor.mul_(1 + 0.01 * torch.randn_like(tensor))
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.add_(0.1 * torch.randn_like(buffer))
            elif name.endswith("running_var"):
                buffer.mul_(0.75 + 0.5 * torch.rand_like(buffer))


def as_list(result):
    """Tensors of whatever a module returns, in order."""
    if isinstance(result, torch.Tensor):
        return [result]
    values = result.values() if isinstance(result, dict) else result
    return [t for value in values if value is not None for t in as_list(value)]


def has_batch_norm(module):
    return any(isinstance(part, BATCH_NORMS) for part in module.modules())


# ---- exports

def runs(path, inputs):
    """Whether onnxruntime runs the file: else its message."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        session.run(None, {i.name: inputs[i.name].numpy() for i in session.get_inputs()})
    except Exception as error:
        return str(error).splitlines()[0][:300]
    return ""


def to_onnx(exporter, module, inputs, outputs, path, training, fold):
    """Writes the file; the message of onnxruntime when that cannot run it."""
    names = list(inputs)
    batch = next(iter(inputs.values())).shape[0]
    if exporter == "script":
        mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
        dynamic = {name: {0: "batch"} for name, x in inputs.items() if x.shape[0] == batch}

        def write(axes, opset=OPSETS[exporter]):
            torch.onnx.export(module, tuple(inputs.values()), path, dynamo=False, opset_version=opset, training=mode,
                              do_constant_folding=fold, input_names=names, output_names=outputs, dynamic_axes=axes)
        try:
            write(dynamic)
        except Exception as error:
            # Some operators came later, and some conversions need the sizes of computed values.
            write(dynamic, 20) if "added in version" in str(error) else write(None)
        wrong = runs(path, inputs)
        if wrong:  # a free batch size can make conversions write what no runtime accepts
            write(None)
            wrong = runs(path, inputs)
        return wrong
    # Optimizing folds every BatchNormalization into its convolution, also for a module in training mode.
    program = torch.onnx.export(module, tuple(inputs.values()), dynamo=True, opset_version=OPSETS[exporter],
                                optimize=fold and not has_batch_norm(module), verbose=False, input_names=names,
                                output_names=outputs)
    program.save(path)
    return runs(path, inputs)


# ---- truth of the module

def terms(entry, outputs):
    """[(loss, output, weight)]"""
    if isinstance(entry.loss, str):
        return [(entry.loss, outputs[0], 1.0)]
    return [(text.split("*")[0], output, float(text.split("*")[1]) if "*" in text else 1.0)
            for output, text in entry.loss.items()]


def loss_of(kind, y, target):
    if kind == "sum":
        return y.sum()
    if kind in CLASSES:
        y = y.transpose(1, 2) if y.dim() == 3 else y
        return F.cross_entropy(y, target) if kind == "cross_entropy" else F.nll_loss(y, target)
    return {"mse": F.mse_loss, "l1": F.l1_loss}[kind](y, target)


def target_of(kind, y, classes):
    if kind in CLASSES:
        shape = y.shape[:1] + y.shape[2:] if y.dim() in (4, 5) else y.shape[:-1]
        return torch.randint(0, classes, shape)
    return torch.randn(y.shape)


def autograd(module, inputs, outputs, losses, targets, dtype):
    """(loss, {name: gradient} for every parameter); raises where the module cannot do it in this type."""
    module = copy.deepcopy(module).to(dtype)
    inputs = [x.to(dtype) if x.is_floating_point() else x for x in inputs.values()]
    results = dict(zip(outputs, as_list(module(*inputs))))
    total = 0.0
    for kind, output, weight in losses:
        target = targets.get(output)
        target = target.to(dtype) if target is not None and target.is_floating_point() else target
        total = total + weight * loss_of(kind, results[output].to(dtype), target)
    parameters = {k: p for k, p in module.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(total, list(parameters.values()), allow_unused=True)
    found = {k: g.numpy() for k, g in zip(parameters, gradients) if g is not None}
    loss = float(total.detach())
    if not np.isfinite(loss) or not all(np.isfinite(g).all() for g in found.values()):
        raise ArithmeticError("gradients that are not finite")
    return loss, found


def truth(module, inputs, outputs, losses, targets):
    """(loss, gradients, note): in float32 where a module's own code forbids float64."""
    notes = []
    for dtype in (torch.float64, torch.float32):
        torch.set_default_dtype(dtype)  # for what a forward makes anew
        try:
            return *autograd(module, inputs, outputs, losses, targets, dtype), "; ".join(notes)
        except Exception as error:
            notes.append(f"{dtype}: {type(error).__name__}: {error}".splitlines()[0][:150])
        finally:
            torch.set_default_dtype(torch.float32)
    return None, {}, "; ".join(notes)


def names_in_file(model, parameters):
    """{parameter: [(name in the file, transposed)]}: by name, else by value."""
    by_value = {}
    for name, p in parameters.items():
        plain = p.detach().numpy()
        symmetric = plain.ndim == 2 and np.array_equal(plain, plain.T)  # cannot be told from its transpose
        if plain.size < 2 or np.all(plain == plain.flat[0]) or symmetric:
            continue
        by_value.setdefault((plain.shape, plain.tobytes()), (name, False))
        if plain.ndim == 2:
            turned = np.ascontiguousarray(plain.T)
            by_value.setdefault((turned.shape, turned.tobytes()), (name, True))
    found = {}
    for initializer in model.graph.initializer:
        if initializer.data_type != onnx.TensorProto.FLOAT:
            continue
        value = numpy_helper.to_array(initializer)
        same = parameters.get(initializer.name)
        if same is not None and np.array_equal(same.detach().numpy(), value):
            hit = (initializer.name, False)
        else:
            hit = by_value.get((value.shape, np.ascontiguousarray(value).tobytes()))
        if hit:
            found.setdefault(hit[0], []).append((initializer.name, hit[1]))
    return found


# ---- one job

def build(entry, training):
    torch.manual_seed(sum(map(ord, entry.name)))
    module = still(entry.build())
    disturb(module)
    inputs = entry.inputs()
    if not training:
        settle(module, inputs)
    return module.train(training), inputs


def settle(module, inputs):
    """Running statistics near those of the inputs: with others, deep networks blow up."""
    norms = [part for part in module.modules() if isinstance(part, BATCH_NORMS) and part.running_mean is not None]
    momenta = [part.momentum for part in norms]
    module.eval()
    for part in norms:
        part.train()
        part.momentum = 0.9
    if norms:
        with torch.no_grad():
            module(*inputs.values())
    for part, momentum in zip(norms, momenta):
        part.momentum = momentum


def attempt(entry, exporter, training, folder):
    module, inputs = build(entry, training)
    with torch.no_grad():
        results = as_list(copy.deepcopy(module)(*inputs.values()))
    outputs = [entry.outputs[i] if i < len(entry.outputs) else f"y{i}" for i in range(len(results))]
    losses = terms(entry, outputs)
    targets = {output: target_of(kind, dict(zip(outputs, results))[output], entry.classes)
               for kind, output, _ in losses if kind not in ("sum", "mean")}
    path = folder / "model.onnx"
    wrong = to_onnx(exporter, module, inputs, outputs, str(path), training, entry.fold)
    model = onnx.load(path)

    module, _ = build(entry, training)  # tracing moves running statistics
    for part in module.modules():
        if type(part) in (nn.Embedding, nn.EmbeddingBag):
            part.padding_idx = None  # ONNX has no row without a gradient
    normalises = has_batch_norm(module)
    frozen = not training or exporter == "dynamo"
    if frozen:
        module.eval()
        for part in module.modules():
            if isinstance(part, BATCH_NORMS):
                part.train()
    parameters = dict(module.named_parameters())
    names = names_in_file(model, parameters)
    loss, gradients, note = truth(module, inputs, outputs, losses, targets)
    arrays = {} if loss is None else {"loss": np.array(loss)}
    for name, places in names.items():
        if name in gradients:
            arrays["+".join(place + ("^T" if turned else "") for place, turned in places)] = gradients[name]
    np.savez(folder / "module.npz", **arrays)
    graph_inputs = {i.name for i in model.graph.input}
    batch = {k: v.numpy() for k, v in inputs.items() if k in graph_inputs}
    for output, target in targets.items():
        batch["target" if len(targets) == 1 else "target/" + output] = target.numpy()
    np.savez(folder / "batch.npz", **batch)

    def nodes(graph):
        return sum(1 + sum(nodes(a.g) for a in n.attribute if a.type == onnx.AttributeProto.GRAPH)
                   for n in graph.node)
    return {
        "nodes": nodes(model.graph) + sum(len(f.node) for f in model.functions),
        "parameters": sum(p.numel() for p in parameters.values()),
        "opset": next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx")),
        "mode": "train" if training else "eval",
        "losses": losses,
        "statistics": normalises and frozen,  # the file normalises by running statistics
        "module_parameters": len([p for p in parameters.values() if p.requires_grad]),
        "module_note": note,
        "onnxruntime": wrong,
        "folded": entry.fold,
    }


def export(entry, exporter, folder):
    """meta.json says how it went: {"error": ...} when no mode could be exported."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    errors = []
    modes = entry.modes if exporter == "script" else ("eval",)
    for mode in modes:
        try:
            meta = attempt(entry, exporter, mode == "train", folder)
            break
        except Exception as error:
            import traceback
            traceback.print_exc()
            text = (str(error).strip() or "no message").splitlines()
            errors.append(f"{type(error).__name__}: {text[0][:300]}")
    else:
        meta = {"error": errors[-1], "errors": errors}
    (folder / "meta.json").write_text(json.dumps(meta))

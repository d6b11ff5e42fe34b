#!/usr/bin/env python3
"""Makes the files of this folder again: needs numpy, onnx, onnxscript, safetensors, torch and
transformers.

    make.py [NAME...]

NAME_script.onnx and NAME_dynamo.onnx are exports of a module, NAME.safetensors is the state_dict of
the same module with other weights, and NAME.npz has inputs (in/x0, …) and what PyTorch computes
from them with those weights in float64 (out/y) or float32 (out32/y)."""
import pathlib
import sys

import numpy as np
import onnx
import torch
from safetensors.torch import save_file

sys.dont_write_bytecode = True
from architectures import CASES, FOLDED, build, exports, inputs

HERE = pathlib.Path(__file__).parent
KEPT = ("name_scopes", "folded_from", "InputSpec.kind", "graph_signature")


def strip(model):
    """Takes out all texts but the modules' names: most are about the exporting program."""
    def keep_names(item):
        item.doc_string = ""
        kept = [p for p in item.metadata_props if p.key.endswith(KEPT)]
        del item.metadata_props[:]
        item.metadata_props.extend(kept)

    def graph(g):
        keep_names(g)
        shapes = [v for v in g.value_info if any(p.key.endswith(KEPT) for p in v.metadata_props)]
        del g.value_info[:]
        g.value_info.extend(shapes)
        for item in [*g.value_info, *g.input, *g.output, *g.initializer, *g.node]:
            keep_names(item)
        for node in g.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    graph(attribute.g)
    graph(model.graph)
    del model.metadata_props[:]
    assert not model.functions
    return model


def make(name):
    args = inputs("resnet" if name == FOLDED else name)
    exported = exports(name, build("resnet" if name == FOLDED else name), args)
    for exporter, model in exported.items():
        strip(model)
        onnx.checker.check_model(model)
        onnx.save(model, HERE / f"{name}_{exporter}.onnx")
    sizes = {e: len(m.SerializeToString()) // 1024 for e, m in exported.items()}
    if name == FOLDED:
        print(f"{name}: {sizes} KiB")
        return
    module = build(name, seed=1).eval()
    state = {key: value.detach().clone() for key, value in module.state_dict().items()}
    save_file(state, HERE / f"{name}.safetensors")
    arrays = {f"in/x{i}": x.numpy() for i, x in enumerate(args)}
    with torch.no_grad():
        arrays["out32/y"] = module(*args).numpy()
        exact = [x.double() if x.is_floating_point() else x for x in args]
        arrays["out/y"] = module.double()(*exact).numpy()
    np.savez(HERE / f"{name}.npz", **arrays)
    print(f"{name}: {len(state)} tensors, {sizes} KiB")


if __name__ == "__main__":
    for case in sys.argv[1:] or [*CASES, FOLDED]:
        make(case)

#!/usr/bin/env python3
"""Makes custom_op.onnx again: needs numpy and onnx.

    h = SoftSign(Swish(x w1 + b1))     both of the domain my.ops
    y = h w2
    rounded = Round(y * 16) / 16"""
import pathlib

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

random = np.random.RandomState(0)


def weight(name, *shape):
    values = random.normal(0, 1 / np.sqrt(shape[0]), shape).astype(np.float32)
    return numpy_helper.from_array(values, name)


def port(name, width):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])


nodes = [
    helper.make_node("Gemm", ["x", "w1", "b1"], ["a"], name="fc1"),
    helper.make_node("Swish", ["a"], ["s"], name="swish", domain="my.ops", beta=1.5),
    helper.make_node("SoftSign", ["s"], ["h"], name="softsign", domain="my.ops"),
    helper.make_node("MatMul", ["h", "w2"], ["y"], name="fc2"),
    helper.make_node("Mul", ["y", "steps"], ["scaled"], name="scale"),
    helper.make_node("Round", ["scaled"], ["whole"], name="round"),
    helper.make_node("Div", ["whole", "steps"], ["rounded"], name="unscale"),
]
graph = helper.make_graph(
    nodes, "custom_op", [port("x", 4)], [port("y", 2), port("rounded", 2)],
    [weight("w1", 4, 16), weight("b1", 16), weight("w2", 16, 2),
     numpy_helper.from_array(np.float32(16), "steps")])
model = helper.make_model(graph, ir_version=8, opset_imports=[
    helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)])
checker.check_model(model)
save(model, pathlib.Path(__file__).parent / "custom_op.onnx")

#!/usr/bin/env python3
"""newest_cases.py FOLDER: writes the backend tests of the installed onnx package as files.

The package makes its node cases in Python; here each becomes FOLDER/node/CASE with model.onnx and
test_data_set_K/{input,output}_I.pb, the layout in which the package ships its other cases; those are copied."""
import pathlib
import shutil
import sys

import onnx.backend.test
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

WRITERS = {"sequence_type": numpy_helper.from_list, "optional_type": numpy_helper.from_optional,
           "map_type": numpy_helper.from_dict, "tensor_type": numpy_helper.from_array}


def value_bytes(value, info):
    if isinstance(value, TensorProto):
        return value.SerializeToString()
    return WRITERS[info.type.WhichOneof("value")](value, info.name).SerializeToString()


def write_case(case, folder):
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    if (case.rtol, case.atol) != (1e-3, 1e-7):
        (folder / "data.json").write_text(f'{{"rtol": {case.rtol!r}, "atol": {case.atol!r}}}')
    graph = case.model.graph
    for k, (inputs, outputs) in enumerate(case.data_sets):
        data_set = folder / f"test_data_set_{k}"
        data_set.mkdir()
        for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for i, (value, info) in enumerate(zip(values, infos, strict=True)):
                (data_set / f"{kind}_{i}.pb").write_bytes(value_bytes(value, info))


def main():
    folder = pathlib.Path(sys.argv[1])
    for case in load_model_tests(kind="node"):
        write_case(case, folder / "node" / case.name)
    data = pathlib.Path(onnx.backend.test.__file__).parent / "data"
    for kind in ("light", "pytorch-converted", "pytorch-operator", "real", "simple"):
        shutil.copytree(data / kind, folder / kind)


main()

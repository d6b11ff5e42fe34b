#!/usr/bin/env python3
"""Trains the digits model through libtrainrt.so with ctypes; nothing but the standard library.

    digits.py libtrainrt.so DIGITS_FOLDER SCRATCH_FOLDER
"""
import ast
import ctypes
import os
import random
import struct
import sys
import zipfile
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_void_p

OK, USAGE, SIZE, HANDLE, ARGUMENT = 0, 1, 11, 9, 10
DTYPES = {"<f4": 0, "<f8": 1, "<i8": 7}


class Array(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), ("bytes", c_size_t), ("shape", POINTER(c_int64)),
                ("rank", c_int32), ("dtype", c_int32)]


class Step(ctypes.Structure):
    _fields_ = [("loss", c_double), ("lr", c_double), ("step", c_int64), ("updated", c_int32)]


class Rows:
    """An array of a .npz file, as bytes."""

    def __init__(self, npy):
        assert npy[:6] == b"\x93NUMPY" and npy[6] == 1
        length = struct.unpack("<H", npy[8:10])[0]
        header = ast.literal_eval(npy[10:10 + length].decode("latin1"))
        assert not header["fortran_order"]
        self.dtype, self.shape, self.data = DTYPES[header["descr"]], header["shape"], npy[10 + length:]
        self.row = len(self.data) // self.shape[0]

    def take(self, indices):
        rows = Rows.__new__(Rows)
        rows.dtype, rows.shape, rows.row = self.dtype, (len(indices), *self.shape[1:]), self.row
        rows.data = b"".join(self.data[i * self.row:(i + 1) * self.row] for i in indices)
        return rows


def load_npz(path):
    with zipfile.ZipFile(path) as file:
        return {name.removesuffix(".npy"): Rows(file.read(name)) for name in file.namelist()}


def arrays(batch):
    """A batch as the structs that the library reads; they keep the memory they point to."""
    structs = (Array * len(batch))()
    keep = []
    for struct_, (name, rows) in zip(structs, batch.items()):
        shape = (c_int64 * len(rows.shape))(*rows.shape)
        data = ctypes.create_string_buffer(rows.data, len(rows.data))
        keep += [shape, data]
        struct_.name, struct_.data, struct_.bytes = name.encode(), ctypes.addressof(data), len(rows.data)
        struct_.shape, struct_.rank, struct_.dtype = shape, len(rows.shape), rows.dtype
    structs.keep = keep
    return structs


class Library:
    """Calls by name without `trainrt_`; an error becomes an exception."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.trainrt_last_error.restype = c_char_p
        self.lib.trainrt_version.restype = c_char_p
        self.lib.trainrt_trainer_set_learning_rate.argtypes = [c_void_p, c_double]

    def status(self, function, *args):
        return getattr(self.lib, "trainrt_" + function)(*args)

    def __getattr__(self, function):
        def call(*args):
            if (status := self.status(function, *args)) != OK:
                raise RuntimeError(f"{function}: {status}: {self.lib.trainrt_last_error().decode()}")
        return call

    def create(self, function, *args):
        handle = c_void_p()
        getattr(self, function)(*args, byref(handle))
        assert handle.value
        return handle

    def number(self, kind, function, *args):
        value = kind()
        getattr(self, function)(*args, byref(value))
        return value.value


def wrong_calls(lib, module, trainer, batch):
    def fails(status, function, *args):
        found = lib.status(function, *args)
        assert found == status, f"{function}: expected {status}, found {found}"
        assert lib.lib.trainrt_last_error()

    count, out = c_int64(), c_void_p()
    fails(HANDLE, "module_flat_size", None, byref(count))
    fails(HANDLE, "module_flat_size", trainer, byref(count))
    fails(HANDLE, "module_flat_size", c_void_p(ctypes.addressof(count)), byref(count))
    fails(ARGUMENT, "module_flat_size", module, None)
    fails(ARGUMENT, "trainer_step", trainer, None, c_int64(1), None)
    fails(ARGUMENT, "trainer_step", trainer, batch, c_int64(-1), None)
    fails(USAGE, "module_get_state", module, b"no such weight", None, c_size_t(0), byref(c_size_t()))
    fails(SIZE, "module_get_flat", module, c_int32(0), (c_float * 1)(), c_int64(1))
    short = (Array * 1)(batch[0])
    short[0].bytes -= 1
    fails(SIZE, "module_forward", module, short, c_int64(1), byref(out))
    assert out.value is None


def accuracy(lib, trainer, val):
    evaluation = lib.create("trainer_evaluate", trainer, val, c_int64(2))
    value = lib.number(c_double, "evaluation_metric", evaluation, b"accuracy")
    lib.evaluation_free(evaluation)
    return value


def main():
    lib = Library(os.path.abspath(sys.argv[1]))
    folder, scratch = sys.argv[2:4]
    print("trainrt", lib.lib.trainrt_version().decode())
    data = load_npz(os.path.join(folder, "train.npz"))
    val = arrays(load_npz(os.path.join(folder, "val.npz")))
    model = os.path.join(folder, "digits.onnx").encode()

    options = lib.create("options_create")
    lib.options_set(options, b"seed", b"7")
    module = lib.create("module_load", model, options)
    lib.options_free(options)
    options = lib.create("trainer_options_create")
    lib.trainer_options_set(options, b"optimizer", b"adamw")
    lib.trainer_options_set(options, b"lr", b"2e-3")
    trainer = lib.create("trainer_create", module, options)
    lib.trainer_options_free(options)

    order = list(range(data["x"].shape[0]))
    random.seed(1)
    losses, step = [], Step()
    for epoch in range(8):
        random.shuffle(order)
        total, steps = 0.0, 0
        for begin in range(0, len(order), 32):
            batch = arrays({name: rows.take(order[begin:begin + 32]) for name, rows in data.items()})
            lib.trainer_step(trainer, batch, c_int64(2), byref(step))
            total, steps = total + step.loss, steps + 1
        losses.append(total / steps)
        print(f"epoch {epoch + 1}: loss {losses[-1]:.4f}")
    assert step.step == 8 * 45 and losses[-1] < losses[0] / 5, losses
    trained = accuracy(lib, trainer, val)
    print(f"validation accuracy {trained:.4f}")
    assert trained >= 0.97

    wrong_calls(lib, module, trainer, val)

    # State by name and in one row.
    size = lib.number(c_int64, "module_flat_size", module)
    weights = (c_float * size)()
    lib.module_get_flat(module, c_int32(0), weights, c_int64(size))
    entry, at, names = Array(), 0, []
    for index in range(lib.number(c_int64, "module_parameter_count", module)):
        lib.module_state(module, c_int64(index), byref(entry))
        names.append(entry.name.decode())
        values = (c_float * (entry.bytes // 4))()
        lib.module_get_state(module, entry.name, values, c_size_t(entry.bytes), None)
        assert list(values) == weights[at:at + len(values)], names[-1]
        at += len(values)
    assert at == size and "fc2.bias" in names

    # The exported file and the flat parameters both carry the training.
    out = os.path.join(scratch, "trained.onnx").encode()
    lib.module_export_onnx(module, out)
    lib.trainer_free(trainer)
    lib.module_free(module)
    assert lib.status("module_free", module) == HANDLE
    other = lib.create("module_load", out, None)
    trainer = lib.create("trainer_create", other, None)
    assert abs(accuracy(lib, trainer, val) - trained) < 0.005
    lib.trainer_free(trainer)
    lib.module_free(other)
    fresh = lib.create("module_load", model, None)
    lib.module_set_flat(fresh, c_int32(0), weights, c_int64(size))
    again = (c_float * size)()
    lib.module_get_flat(fresh, c_int32(0), again, c_int64(size))
    assert list(again) == list(weights)
    lib.module_free(fresh)
    print("All tests passed (ctypes, in 1 test case)")


main()

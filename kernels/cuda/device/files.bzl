"""The files of device code, for nvcc and for the emulation."""

DEVICE_FILES = [
    "loss",
    "random",
    "softmax",
    "state",
]

"""The files of device code, for nvcc and for the emulation."""

DEVICE_FILES = [
    "interpolate",
    "pool",
    "loss",
    "random",
    "softmax",
    "state",
]

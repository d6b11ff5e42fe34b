"""The files of device code, for nvcc and for the emulation."""

DEVICE_FILES = [
    "attention",
    "fused",
    "interpolate",
    "pool",
    "loss",
    "random",
    "softmax",
    "source",
    "state",
]

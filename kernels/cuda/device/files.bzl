"""The files of device code, for nvcc and for the emulation."""

DEVICE_FILES = [
    "attention",
    "batch_norm",
    "fused",
    "interpolate",
    "layer_norm",
    "loss",
    "parts",
    "pool",
    "random",
    "softmax",
    "source",
    "state",
]

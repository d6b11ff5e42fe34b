"""The files of device code, for nvcc and for the emulation."""

DEVICE_FILES = [
    "attention",
    "batch_norm",
    "fused",
    "indexing",
    "interpolate",
    "layer_norm",
    "loss",
    "movement",
    "parts",
    "pool",
    "random",
    "reduce",
    "scan",
    "softmax",
    "sort",
    "source",
    "state",
]

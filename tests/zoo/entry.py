"""What an entry of the zoo is, and the helpers that the tables share."""
import dataclasses
from typing import Callable

import torch
from torch import nn


@dataclasses.dataclass
class Entry:
    """One architecture: how to build it, what to feed it, and its loss."""
    name: str
    library: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], dict]     # name -> tensor, drawn from torch's seeded generator
    loss: str = "cross_entropy"    # of the first output, or {output: loss} terms "a=mse,b=sum*0.5"
    outputs: tuple = ("y",)
    classes: int = 5               # of the targets of cross_entropy
    modes: tuple = ("train", "eval")  # modes to export in, first that works
    fold: bool = True  # constant folding by the exporter; it can turn one weight into two


ENTRIES: list[Entry] = []


def add(name, library, build, inputs, **options):
    assert all(e.name != name for e in ENTRIES), name
    ENTRIES.append(Entry(name, library, build, inputs, **options))


def image(size, batch=2, channels=3):
    height, width = size if isinstance(size, tuple) else (size, size)
    return lambda: {"x": torch.randn(batch, channels, height, width)}


def floats(*shape):
    return lambda: {"x": torch.randn(*shape)}


def ids(vocabulary, batch=2, length=8, name="ids"):
    return lambda: {name: torch.randint(3, vocabulary, (batch, length))}


class Call(nn.Module):
    """A module whose forward is `function(inner, *inputs)`; parameter names keep the prefix `m.`."""

    def __init__(self, inner, function):
        super().__init__()
        self.m, self.function = inner, function

    def forward(self, *inputs):
        return self.function(self.m, *inputs)

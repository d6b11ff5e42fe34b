#!/usr/bin/env python3
"""Builds entries and runs them once: sizes.py TABLE [PART-OF-NAME...], e.g. sizes.py models_timm swin"""
import importlib
import sys

import torch

import entry
import export

sys.dont_write_bytecode = True
importlib.import_module(sys.argv[1])
for item in entry.ENTRIES:
    if len(sys.argv) > 2 and not any(part in item.name for part in sys.argv[2:]):
        continue
    try:
        module, inputs = export.build(item, "train" in item.modes)
        with torch.no_grad():
            shapes = [tuple(y.shape) for y in export.as_list(module(*inputs.values()))]
        print(f"{item.name:32} {sum(p.numel() for p in module.parameters()):>11,} {shapes}")
    except Exception as error:
        print(f"{item.name:32} {type(error).__name__}: {str(error).splitlines()[:1]}")

"""Times PyTorch's training step: torch_step.py NAME MODE [SECONDS]; prints one line of JSON.

MODE: eager, channelslast, compile or compile-channelslast, and -bf16 behind it for autocast; -cuda on a GPU, with -tf32
where products may be of TF32."""
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import models

name, mode = sys.argv[1], sys.argv[2].split("-")
seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 5
module, x, target = models.build(name)
module.train()
device = "cuda" if "cuda" in mode else "cpu"
if device == "cuda":
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = "tf32" in mode
    module, x, target = module.to(device), x.to(device), target.to(device)
if "channelslast" in mode and x.dim() == 4:
    module.to(memory_format=torch.channels_last)
    x = x.to(memory_format=torch.channels_last)
forward = torch.compile(module) if "compile" in mode else module
optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)


def status_mib(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(key)) / 1024


with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")  # the peak starts anew: what came before, a parent's share included, must not hide it
before = status_mib("VmRSS")


def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device, dtype=torch.bfloat16, enabled="bf16" in mode):
        y = forward(x)
        loss = F.cross_entropy(y.reshape(-1, y.shape[-1]), target.reshape(-1))
    loss.backward()
    optimizer.step()
    return loss.item()


for _ in range(3):
    step()
times, start = [], time.perf_counter()
while time.perf_counter() - start < seconds or len(times) < 5:
    begin = time.perf_counter()
    loss = step()
    times.append(1e3 * (time.perf_counter() - begin))
mib = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else status_mib("VmHWM") - before
print(json.dumps({"step_ms": statistics.median(times), "loss": loss, "step_mib": mib}))

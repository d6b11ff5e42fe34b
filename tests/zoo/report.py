#!/usr/bin/env python3
"""Writes docs/zoo.md from a results.jsonl of zoo.py: report.py RESULTS.jsonl > docs/zoo.md"""
import collections
import fnmatch
import json
import re
import sys

EXPORTERS = ("script", "dynamo")
LIBRARIES = {"torchvision": "torchvision", "timm": "timm", "transformers": "transformers", "torch": "torch.nn layers"}

# What was found about results that are no plain agreement: (name, exporter, status, text).
NOTES = [
    (name, "dynamo", "Networks with weight standardisation (nf_*, nfnet, resnetv2_*_bit): the dynamo exporter writes it as "
     "BatchNormalization in inference form whose statistics the graph computes from the weight. The figures compare `--bn graph`, in "
     "which statistics pass no gradient by convention (the independent program does the same). In the default mode trainrt uses the "
     "batch's statistics, and all gradients of these four are within 1e-6 of the module's.")
    for name in ("nf_*", "test_nfnet", "resnetv2_50x1_bit")
] + [
    (name, "*", "tv_raft_small, bat_resnext26ts, convit_tiny, hf_rwkv: trainrt and the independent program agree on the file in "
     "float64. convit_tiny: a diagonal weight was matched with its transpose by the comparison. hf_rwkv: central differences "
     "(`grad --numeric`) confirm the file's gradient; the exporter folded `1 - time_mix` into a second weight. tv_raft_small: its "
     "module runs in float32 only, which is off by itself. bat_resnext26ts: the exported graph's loss is not the module's; not "
     "looked into further.")
    for name in ("hf_rwkv", "tv_raft_small", "bat_resnext26ts", "convit_tiny")
] + [
    ("hf_canine", "dynamo", "hf_canine: the gradient of one weight, a mask of ones that is scaled by the largest float, overflows; the "
     "module's own is not finite either. All others agree."),
    ("hf_recurrent_gemma", "dynamo", "hf_recurrent_gemma: gradients agree to 2e-15. A constant of the code under a square root is a weight by "
     "the rule and is trained; after three steps the square root is NaN, in onnxruntime as well. `--freeze` takes it out."),
    ("*", "*", "Refusals: Reshape, Conv, Transpose and broadcasts that do not fit are what the exporter wrote; onnxruntime refuses "
     "these files or nodes likewise."),
]


def number(value):
    return "" if value is None else "inf" if value == float("inf") else f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e+")


def short(text):
    return re.sub(r"\s+", " ", re.sub("\x1b?\\[[0-9;]+m", "", text)).replace("|", "\\|").strip()


def cell(result):
    if result is None:
        return "–"
    status = result["status"]
    if status == "agrees":
        redrawn = result.get("float32_redrawn")
        single = "kink" if redrawn and redrawn[-1] <= 1e-3 else number(result.get("float32"))
        return f"{result['nodes']}: {number(result.get('float64'))}, {single}, {number(result.get('module')) or '–'}"
    return f"{result['nodes']}: **{status}**" if "nodes" in result else status


def table(rows):
    print("| architecture | weights | TorchScript | dynamo |\n|---|---:|---|---|")
    for name, results in rows.items():
        weights = next((r["parameters"] for r in results.values() if "parameters" in r), None)
        print(f"| {name} | {'' if weights is None else f'{weights:,}'} | "
              + " | ".join(cell(results.get(e)) for e in EXPORTERS) + " |")


def grouped(results, reason):
    """Reason -> names, in order of appearance."""
    groups = collections.OrderedDict()
    for r in results:
        groups.setdefault(reason(r), []).append(f"{r['name']} ({'TorchScript' if r['exporter'] == 'script' else 'dynamo'})")
    for text, names in groups.items():
        print(f"- {short(text)}: {', '.join(names)}")


def why_refused(r):
    if "problems" not in r:
        return r.get("message", "")[:300]
    found = sorted({f"{p['op']}: {p['reason']}" for p in r["problems"]})
    return "; ".join(found[:3])[:400] + ("; …" if len(found) > 3 else "")


def main():
    lines = [json.loads(line) for line in open(sys.argv[1])]
    versions, results = lines[0]["versions"], lines[1:]
    by_name = collections.OrderedDict()
    for r in results:
        by_name.setdefault(r["name"], {})[r["exporter"]] = r
    count = collections.Counter((r["exporter"], r["status"].split(":")[0]) for r in results)
    states = sorted({s for _, s in count}, key=lambda s: (s != "agrees", s))
    agreeing = [r for r in results if r["status"] == "agrees"]
    exported = {r["name"] for r in results if r["status"] != "not exported"}

    print(f"""# Zoo

{len(by_name)} architectures of torchvision, timm, transformers and torch.nn, exported by both exporters of PyTorch with random
weights, small sizes and training mode where the exporter can (results of several builds of one day); the loss and the gradient of every weight and input held against
an independent program. Written by `tests/zoo/report.py` from a run that ended on {max(r['date'] for r in results)} with
{', '.join(f'{k} {v}' for k, v in versions.items() if k != 'trainrt')}, {versions['trainrt']}. `tests/zoo/README.md` has the commands.

| | {' | '.join(states)} |
|---|{'---:|' * len(states)}""")
    for exporter, label in (("script", "TorchScript, opset 17"), ("dynamo", "dynamo, opset 20")):
        print(f"| {label} | " + " | ".join(str(count[exporter, s]) for s in states) + " |")
    trained = [r["trained"] for r in agreeing if "trained" in r]
    print(f"""
{len(exported)} architectures could be exported by at least one of them. In the tables a cell holds the number of nodes, then the
worst error of any gradient, by max|a-b| / max(max|b|, 0.001 of the model's largest gradient):

- in float64 against the independent program, which runs the same file (must be below 1e-6; it is below
  {number(max((r['float64'] for r in agreeing if 'float64' in r), default=0))} everywhere),
- in float32 against the same float64 values (below 1e-3; "kink" where a value falls on the other side of a ReLU's kink in
  float32 for this batch, but float32 is within 1e-3 for another batch). A larger figure stands where normalisation over a few
  values magnifies rounding: the independent program's own float32 is as far off there, up to a factor of 4. For mobileone_s0
  and rexnet_100 (TorchScript) the factor is 9 and 6; of mobileone_s0 the plain reference kernels in float32 are as far off on other
  batches,
- in float64 against torch.autograd of the original module (below 1e-3, since modules and files hold float32 constants; – where
  the module cannot run in float64). A dynamo export has BatchNormalization in inference form: here it is held against the
  module in training mode, as trainrt trains it.

Every file of a cell with numbers passes `trainrt check`. Each was trained for three steps of AdamW, and the trained file gives
in onnxruntime what `trainrt predict` gives ({len(trained)} files; largest difference {number(max(trained, default=0))} of the largest output).
""")
    for library, label in LIBRARIES.items():
        print(f"## {label}\n")
        table({n: rs for n, rs in by_name.items() if next(iter(rs.values()))["library"] == library})
        print()
    for title, wanted, reason in (
            ("Refused", "refused", why_refused), ("Failed", "failed", lambda r: r.get("message", "")[:300]),
            ("Not in agreement", "mismatch", lambda r: f"{r['status']}, {number(r.get('float64'))}, {number(r.get('float32'))}, "
                                                       f"{number(r.get('module'))}"),
            ("Not exported", "not exported", lambda r: re.sub(r"\[Caused.*", "", r["error"])[:160])):
        chosen = [r for r in results if r["status"].startswith(wanted)]
        if chosen:
            print(f"## {title}\n")
            notes = [text for name, exporter, text in NOTES if any(
                fnmatch.fnmatchcase(r["name"], name) and exporter in (r["exporter"], "*") for r in chosen)]
            grouped(chosen, reason)
            if notes:
                print("\n" + "\n\n".join(dict.fromkeys(notes)))
            print()


if __name__ == "__main__":
    main()

"""An exported model: what trainrt says against the oracle and against the module, as a dict for the results."""
import json
import os
import runpy
import subprocess
import sys

import numpy as np

EXACT, SINGLE, MODULE = 1e-6, 1e-3, 1e-3  # float64 to the oracle, float32 to the oracle, float64 to the module


def distance(got, want, floor):
    """Largest difference relative to the array's own largest value, at least `floor`."""
    got, want = np.asarray(got, np.float64).reshape(-1), np.asarray(want, np.float64).reshape(-1)
    if got.size != want.size or not np.isfinite(got).all() or not np.isfinite(want).all():
        return float("inf")
    if not want.size:
        return 0.0
    return float(np.max(np.abs(got - want)) / max(np.max(np.abs(want)), floor))


def found(got, name):
    """The gradient of a parameter that the file holds under "a", transposed as "a^T", or more than once as "a+b^T"; None when none is."""
    if name in got:
        return got[name]
    parts = [np.transpose(got[p[:-2]]) if p.endswith("^T") else got[p] for p in name.split("+") if p.removesuffix("^T") in got]
    return sum(parts) if parts else None


def worst_gradient(got, want):
    """(error, name)"""
    floor = 1e-3 * max((float(np.abs(v).max(initial=0)) for v in want.values()), default=0) + 1e-30
    worst = (0.0, "")
    for name, value in want.items():
        gradient = found(got, name)
        error = distance(np.zeros_like(value) if gradient is None else gradient, value, floor)
        if not error <= worst[0]:
            worst = (error, name)
    return worst


def gradients(path):
    with np.load(path) as file:
        return {k: file[k] for k in file.files}


def of(arrays, kind):
    return {k[len(kind) + 1:]: v for k, v in arrays.items() if k.startswith(kind + "/")}


class Comparison:
    def __init__(self, folder, meta, trainrt, oracle, timeout):
        self.folder, self.meta, self.trainrt, self.oracle = folder, meta, trainrt, oracle
        self.timeout, self.result = timeout, {}
        self.model, self.batch = str(folder / "model.onnx"), str(folder / "batch.npz")

    def run(self, *arguments):
        done = subprocess.run([self.trainrt, *arguments, "--threads", "1"], capture_output=True, text=True,
                              timeout=self.timeout)
        return done.returncode, done.stdout, done.stderr

    def losses(self):
        return [f"--loss={kind}:{output}*{weight}" for kind, output, weight in self.meta["losses"]]

    def grad(self, dtype, normalisation, name):
        """Arrays of `trainrt grad`, or None with the reason in the result."""
        out = self.folder / name
        code, _, err = self.run("grad", self.model, "--data", self.batch, "--dtype", dtype, "--out", str(out),
                                "--no-dropout", "--bn", normalisation, *self.losses())
        if code:
            self.result["message"] = err.strip()[:1500]
            return None
        return gradients(out)

    def ask_oracle(self, dtype, name):
        """Arrays of the oracle, kept for the next comparison; None with the reason in the result."""
        out = self.folder / name
        if not out.exists():
            loss = ",".join(f"{o}={kind}*{weight}" for kind, o, weight in self.meta["losses"])
            log = self.folder / "oracle.log"
            pid = os.fork()  # torch is loaded already
            if pid == 0:
                sys.argv = [self.oracle, "grad", self.model, "--batch", self.batch, "--loss", loss, "--out", str(out),
                            "--dtype", dtype]
                handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(handle, 1), os.dup2(handle, 2)
                code = 1
                try:
                    runpy.run_path(self.oracle, run_name="__main__")
                    code = 0
                except SystemExit as end:
                    code = end.code or 0
                except BaseException:
                    import traceback
                    traceback.print_exc()
                finally:
                    sys.stdout.flush(), sys.stderr.flush()
                    os._exit(code)
            _, status = os.waitpid(pid, 0)
            if status or not out.exists():
                lines = log.read_text().strip().splitlines() or ["no message"]
                self.result["oracle_note"] = lines[-1][:300]
                return None
        return gradients(out)

    # -- steps

    def check(self):
        code, out, err = self.run("check", self.model, "--data", self.batch, "--batch", "all", "--json")
        try:
            report = json.loads(out.strip().splitlines()[-1])
        except (ValueError, IndexError):
            self.result.update(status="failed", message=(err or out).strip()[:1500], check=code)
            return False
        self.result["check"] = code
        if not report["trainable"]:
            self.result.update(status="refused", problems=report["problems"])
            return False
        return True

    def hold(self, label, got, want, outputs_too):
        """Largest errors of gradients, loss and outputs into the result; True when all are there."""
        error, name = worst_gradient(of(got, "grad"), of(want, "grad"))
        self.result[label], self.result[label + "_at"] = error, name
        if outputs_too:
            self.result[label + "_loss"] = distance(got["loss"], want["loss"], 1e-6)
            self.result[label + "_output"] = max((distance(v, want["output/" + k], 1e-6)
                                                  for k, v in of(got, "output").items()
                                                  if "output/" + k in want), default=0.0)

    def against_oracle(self, exact):
        want = self.ask_oracle("float64", "oracle.npz")
        if want is None:
            return None
        got, expected = of(exact, "grad"), of(want, "grad")
        self.result["gradients"] = len(expected)
        extra = [k for k in got if k not in expected and np.abs(got[k]).max(initial=0) > 0]
        missing = [k for k in expected if k not in got and np.abs(expected[k]).max(initial=0) > 0]
        self.result.update(extra=extra[:20], missing=missing[:20])
        self.hold("float64", exact, want, True)
        good = not extra and not missing and max(
            self.result[k] for k in ("float64", "float64_loss", "float64_output")) <= EXACT
        single = self.grad("float32", "graph", "trainrt32.npz")
        if single is None:
            return False
        self.hold("float32", single, want, True)
        worst = max(self.result[k] for k in ("float32", "float32_loss", "float32_output"))
        return good and (worst <= SINGLE or self.steady_elsewhere() or self.unsteady(worst, want))

    def unsteady(self, worst, want):
        """Whether the oracle itself is as far off in float32: BatchNormalization over a few values magnifies rounding."""
        other = self.ask_oracle("float32", "oracle32.npz")
        if other is None:
            return False
        self.hold("oracle32", other, want, True)
        return worst <= 4 * max(self.result[k] for k in ("oracle32", "oracle32_loss", "oracle32_output"))

    def steady_elsewhere(self):
        """Whether float32 is near float64 for one of three other batches: a value near a kink of ReLU falls on its other side
        in float32, and all gradients before it move, but not for every batch."""
        with np.load(self.batch) as file:
            arrays = {k: file[k] for k in file.files}
        batch, errors = self.batch, []
        self.batch = str(self.folder / "redrawn.npz")
        for seed in range(3):
            random = np.random.RandomState(seed)
            for name, value in arrays.items():
                if value.dtype.kind == "f" and not name.startswith("target"):
                    arrays[name] = random.standard_normal(value.shape).astype(value.dtype)
            np.savez(self.batch, **arrays)
            want, got = (self.grad(dtype, "graph", f"trainrt_{dtype}.npz") for dtype in ("float64", "float32"))
            if want is None or got is None:
                break
            errors.append(worst_gradient(of(got, "grad"), of(want, "grad"))[0])
            if errors[-1] <= SINGLE:
                break
        self.batch = batch
        self.result["float32_redrawn"] = errors
        return bool(errors) and errors[-1] <= SINGLE

    def against_module(self, exact):
        want = gradients(self.folder / "module.npz")
        loss = want.pop("loss", None)
        if loss is None or not want:
            self.result["module_note"] = self.meta["module_note"] or "no parameter of the module found in the file"
            return None
        scalars = [k for k, v in want.items() if v.ndim == 0]  # a value of rank 0 in a file is a constant, not a weight
        want = {k: v for k, v in want.items() if v.ndim}
        if scalars:
            self.result["scalars"] = scalars
        got = exact
        if self.meta["statistics"]:
            got = self.grad("float64", "train", "trainrt_train.npz")
            if got is None:
                return False
        error, name = worst_gradient(of(got, "grad"), want)
        self.result.update(module=error, module_at=name, module_gradients=len(want),
                           module_loss=distance(got["loss"], loss, 1e-6))
        return max(error, self.result["module_loss"]) <= MODULE

    def train(self):
        """Three steps; the trained file gives the same in onnxruntime and in trainrt."""
        import onnxruntime
        trained, predicted = self.folder / "trained.onnx", self.folder / "predicted.npz"
        code, _, err = self.run("run", self.model, "--data", self.batch, "--batch", "all", "--steps", "3",
                                "--optimizer", "adamw", "--lr", "1e-3", "--no-dropout", "--out", str(trained),
                                *self.losses())
        if not code:
            code, _, err = self.run("predict", str(trained), "--data", self.batch, "--batch", "all", "--out",
                                    str(predicted))
        if code:
            self.result["trained_note"] = err.strip()[:500]
            return False
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            session = onnxruntime.InferenceSession(str(trained), options, providers=["CPUExecutionProvider"])
            batch, mine = gradients(self.batch), gradients(predicted)
            names = [o.name for o in session.get_outputs()]
            theirs = dict(zip(names, session.run(None, {i.name: batch[i.name] for i in session.get_inputs()})))
        except Exception as error:
            self.result["trained_note"] = f"onnxruntime: {error}"[:500]
            return None
        worst = 0.0
        for name in names:
            if theirs[name].dtype.kind == "f":
                mine_here = next((mine[k] for k in (name, "output/" + name) if k in mine), None)
                if mine_here is not None and np.isnan(mine_here).all() and np.isnan(theirs[name]).all():
                    self.result["trained_note"] = "the three steps made it NaN, in onnxruntime too"
                    continue
                worst = max(worst, float("inf") if mine_here is None else distance(mine_here, theirs[name], 1e-6))
        self.result["trained"] = worst
        return worst <= SINGLE

    def all(self):
        if not self.check():
            return self.result
        exact = self.grad("float64", "graph", "trainrt.npz")
        if exact is None:
            return {**self.result, "status": "refused" if "no_lowering" in self.result["message"] else "failed"}
        verdicts = {"oracle": self.against_oracle(exact) if self.oracle else None,
                    "module": self.against_module(exact), "trained": self.train()}
        wrong = [k for k, v in verdicts.items() if v is False]
        checked = [k for k in ("oracle", "module") if verdicts[k]]
        self.result["checked"] = checked
        self.result["status"] = "mismatch: " + ", ".join(wrong) if wrong else "agrees" if checked else "not compared"
        return self.result

"""gpu-check convergence: how far bf16 and fp16 (O1, O2) leave fp32 while a GPT learns English, beside PyTorch's autocast.

PyTorch starts from the same weights and reads the same batches (tools/peers/torch_training.py).
"""

import array
import math
import operator
import subprocess

from gpu_check.cases import CONVERGENCE, CONVERGENCE_BATCH, PRECISIONS
from gpu_check.machine import HERE, peer, read_tensors, runner, train

LOW = [key for key, precision in PRECISIONS.items() if precision.is_low]
STEPS, SEEDS = 300, (1, 2, 3)
RATE, WARM_UP = 1e-3, 30
MOST = 1.5  # times the error of autocast
LEAST_COSINE = 0.999
GRADIENT_RATE = 1024  # a power of two: the update is the gradient, large beside the last places of the weights


def own_losses(precision, seed):
    options = ("--seed", str(seed), "--lr", str(RATE), "--warmup", str(WARM_UP))
    lines = train(f"english-{precision}", ["--data", HERE / "english"], STEPS, *options)
    return [line["loss"] for line in lines]


def torch_losses(precision, seed):
    start = HERE / f"start-{seed}.safetensors"
    subprocess.run(runner("english-fp32", "--seed", str(seed), "--export", start), check=True, stdout=subprocess.DEVNULL)
    return peer(
        "torch_training.py",
        "--weights",
        start,
        "--heads",
        CONVERGENCE["heads"],
        "--data",
        HERE / "english",
        "--batch",
        CONVERGENCE_BATCH,
        "--steps",
        STEPS,
        "--seed",
        seed,
        "--lr",
        RATE,
        "--warmup",
        WARM_UP,
        "--precision",
        precision,
    )


def errors(curves, precision):
    """(mean, largest) distance of its losses from those of fp32, all seeds together."""
    distances = [abs(a - b) for curve in curves for a, b in zip(curve[precision], curve["fp32"])]
    return sum(distances) / len(distances), max(distances)


def compare_curves():
    own = [{precision: own_losses(precision, seed) for precision in PRECISIONS} for seed in SEEDS]
    print(
        f"losses of {STEPS} steps, seeds {SEEDS}: tapeout fp32 {own[0]['fp32'][0]:.4f} to {own[0]['fp32'][-1]:.4f}", flush=True
    )
    names = sorted({precision.name for precision in PRECISIONS.values()})
    peers = [{name: torch_losses(name, seed) for name in names} for seed in SEEDS]
    if any(losses is None for curve in peers for losses in curve.values()):
        return False
    apart = max(abs(a - b) for ours, theirs in zip(own, peers) for a, b in zip(ours["fp32"][:10], theirs["fp32"][:10]))
    good = apart < 1e-4  # else it is not the same training
    print(f"fp32 beside PyTorch's, first 10 steps: {apart:.1e} apart {'ok' if good else 'WRONG'}")
    print(
        f"{'|loss - loss of fp32|':24} {'mean':>10} {'autocast':>10} {'ratio':>6} {'largest':>10} {'autocast':>10} {'ratio':>6}"
    )
    for key in LOW:
        pairs = list(zip(errors(own, key), errors(peers, PRECISIONS[key].name)))
        ratios = [a / b for a, b in pairs]
        columns = " ".join(f"{a:10.2e} {b:10.2e} {a / b:6.2f}" for a, b in pairs)
        print(f"{key:24} {columns} {'ok' if ratios[0] <= MOST else 'WRONG'}")
        good &= ratios[0] <= MOST
    return good


def numbers(data):
    return array.array("f", data)


def first_gradients(precision):
    """By one step of plain descent. Name -> numbers."""
    plan, paths = f"gradient-{precision}", [HERE / f"gradient-{when}.safetensors" for when in ("before", "after")]
    options = ("--lr", str(GRADIENT_RATE), "--weight-decay", "0", "--clip", "0")
    subprocess.run(runner(plan, "--export", paths[0]), check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        runner(plan, "--data", HERE / "english", "--steps", "1", *options, "--export", paths[1]),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    before, after = (read_tensors(path) for path in paths)
    return {name: array.array("f", map(operator.sub, numbers(before[name]), numbers(after[name]))) for name in before}


def cosine(a, b):
    def dot(x, y):
        return math.fsum(map(operator.mul, x, y))

    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b) or math.inf)


def compare_gradients():
    exact, good = first_gradients("fp32"), True
    for low in LOW:
        gradients = first_gradients(low)
        cosines = {name: cosine(exact[name], gradients[name]) for name in exact}
        least = min(cosines, key=cosines.get)
        fine = cosines[least] >= LEAST_COSINE
        found = f"least cosine of {len(cosines)} tensors {cosines[least]:.6f} ({least})"
        print(f"first gradients, {low} and fp32: {found} {'ok' if fine else 'WRONG'}", flush=True)
        good &= fine
    return good


def convergence():
    gradients = compare_gradients()
    return compare_curves() and gradients

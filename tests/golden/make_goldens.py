"""Writes the goldens of tests/e2e: trainings by PyTorch in float64, one JSON file per case. Run it by hand, with PyTorch:
  python3 tests/golden/make_goldens.py [case...]

A golden holds its settings, the losses and gradient norms (before clipping) of all steps, the first losses of the same
training in float32 and, for some, with autocast to bfloat16, the SHA-256 of the initial parameters (float32, little endian, in the order of the model), and per
parameter of the first step's gradient its norm, 8 projections on vectors of +-1 and 16 elements at hashed positions;
the same of the last running statistics.
"""

import hashlib
import json
import os
import sys

import numpy
import torch

import reference

FLOAT32_STEPS = 10
AUTOCAST = ("mlp", "gpt", "llama", "bert", "vit", "lenet")
ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
SCHEDULED = {"lr": 1e-3, "schedule": 2, "min_lr_ratio": 0, "warmup_steps": 10, "weight_decay": 0.1, "clip": 1.0, **ADAM}
QUICK = {**SCHEDULED, "lr": 3e-3, "warmup_steps": 2}
CONSTANT = {"lr": 1e-2, "schedule": 0, "min_lr_ratio": 0, "warmup_steps": 0, "weight_decay": 0.01, "clip": 0}
IMAGES = {"channels": 3, "classes": 5, "batch": 8}
SMALL_MLP = {"model": "mlp", "inputs": 64, "hidden": [48], "classes": 10, "batch": 16}


def case(steps, optimizer, hyperparameters, frozen=(), **model):
    # Few batches, read again and again: the loss falls, so the parameters matter.
    return {
        **model,
        "steps": steps,
        "batches": 5,
        "optimizer": optimizer,
        "frozen": list(frozen),
        "hyperparameters": {**hyperparameters, "total_steps": steps, "seed": 1},
    }


CASES = {
    "mlp": case(50, "adamw", SCHEDULED, model="mlp", inputs=784, hidden=[512, 512], classes=10, batch=16),
    "gpt": case(50, "adamw", SCHEDULED, model="gpt", layers=4, heads=4, width=128, context=16, vocab=256, batch=2),
    "llama": case(
        10, "adamw", QUICK, model="llama", layers=2, heads=4, kv_heads=2, width=32, hidden=[48], context=12, vocab=50, batch=2
    ),
    "bert": case(
        10, "adamw", QUICK, model="bert", layers=2, heads=2, width=24, context=10, vocab=40, mask_token=39, batch=3
    ),
    "vit": case(
        10, "adamw", QUICK, model="vit-b16", image=12, patch=4, layers=2, heads=2, width=24, classes=5, batch=4,
        label_smoothing=0.1,
    ),
    "adam": case(10, "adam", {**CONSTANT, **ADAM, "lr": 1e-3}, **SMALL_MLP),
    "sgd": case(10, "sgd", CONSTANT, **SMALL_MLP),
    "momentum": case(10, "momentum", {**CONSTANT, "momentum": 0.9}, **SMALL_MLP),
    "nesterov": case(10, "nesterov", {**CONSTANT, "momentum": 0.9}, **SMALL_MLP),
    "linear": case(10, "sgd", {**CONSTANT, "schedule": 1, "min_lr_ratio": 0.1, "warmup_steps": 3}, **SMALL_MLP),
    "frozen": case(10, "adamw", {**CONSTANT, **ADAM, "clip": 0.5}, frozen=["layers.0."], **SMALL_MLP),
    "regression": case(10, "adamw", {**CONSTANT, **ADAM}, model="regressor", batch=16),
    "lenet": case(10, "adamw", {**CONSTANT, **ADAM, "lr": 1e-3, "clip": 1.0}, model="lenet", **IMAGES, width=6, image=12),
    "resnet18": case(10, "adamw", {**CONSTANT, **ADAM, "lr": 1e-3, "clip": 1.0}, model="resnet18", **IMAGES, width=4, image=33),
    "resnet50": case(4, "momentum", {**CONSTANT, "momentum": 0.9, "lr": 2e-4, "clip": 1.0}, model="resnet50", **IMAGES, width=3, image=48),
    "unet": case(6, "adamw", {**CONSTANT, **ADAM, "lr": 1e-3}, model="unet", **IMAGES, width=2, image=16),
}


def summary(gradient):
    flat = gradient.reshape(-1)
    projections = []
    for k in range(8):
        signs = numpy.where(reference.words(reference.PROJECTIONS + k, flat.size) & 1, 1.0, -1.0)
        projections.append(float(numpy.dot(signs, flat)))
    positions = reference.words(reference.SAMPLES, 16) % flat.size
    return {
        "norm": float(numpy.linalg.norm(flat)),
        "projections": projections,
        "samples": [float(flat[i]) for i in positions],
    }


def autocast(name, settings, initial, batches):
    if name not in AUTOCAST:
        return {}
    losses, _, _, _ = reference.train(settings, initial, batches, FLOAT32_STEPS, torch.float32, torch.bfloat16)
    return {"losses_autocast": losses}


def make(name, settings):
    initial = reference.initial_parameters(settings)

    def batches(step):
        return reference.hashed_batch(settings, step % settings["batches"])

    losses, norms, gradients, statistics = reference.train(settings, initial, batches, settings["steps"], torch.float64)
    losses32, _, _, _ = reference.train(settings, initial, batches, FLOAT32_STEPS, torch.float32)
    print(f"{name}: loss {losses[0]:.6f} -> {losses[-1]:.6f}")
    return {
        "settings": settings,
        "initial_sha256": hashlib.sha256(b"".join(value.tobytes() for value in initial.values())).hexdigest(),
        "losses": losses,
        "grad_norms": norms,
        "losses_float32": losses32,
        **autocast(name, settings, initial, batches),
        "gradients": {parameter: summary(gradient) for parameter, gradient in gradients.items()},
        "statistics": {name: summary(value) for name, value in statistics.items()},
    }


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in sys.argv[1:] or CASES:
        with open(os.path.join(folder, name + ".json"), "w") as file:
            json.dump(make(name, CASES[name]), file, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    main()

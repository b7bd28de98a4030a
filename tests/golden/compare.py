"""The live check for people with PyTorch: trains one GPT with `tapeout interpret` in float64 and with PyTorch in float64,
from the same weights file and token file, and prints how far they are apart. Exits with 1 beyond the tolerances.
  python3 tests/golden/compare.py build/bin/tapeout
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy
import torch

import reference
from make_goldens import CASES

LOSS_TOLERANCE, GRADIENT_TOLERANCE = 1e-9, 1e-8  # relative; the second to the norm of the layer's gradient
PERIOD = 160  # tokens: the file repeats itself, so that there is something to learn


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def train_with_tapeout(tapeout, settings, folder, initial, tokens):
    """(losses, gradient norms, first gradients)"""
    model, weights, data, gradients = (os.path.join(folder, name) for name in ("m.tape", "w.safetensors", "tokens", "g.safetensors"))
    reference.write_safetensors(weights, initial)
    tokens.astype(numpy.uint8).tofile(data)
    sizes = [f"--{name}={settings[name]}" for name in ("layers", "heads", "width", "context", "vocab")]
    run(tapeout, "model", "gpt", *sizes, "-o", model)
    h = settings["hyperparameters"]
    names = {"lr": "lr", "warmup": "warmup_steps", "weight-decay": "weight_decay", "clip": "clip"}
    output = run(
        tapeout, "interpret", model, f"--batch={settings['batch']}", f"--optimizer={settings['optimizer']}", "--schedule=cosine",
        *(f"--{option}={h[name]}" for option, name in names.items()), f"--steps={settings['steps']}", f"--data={data}",
        "--sequential", f"--init={weights}", "--precision=fp64", f"--dump-gradients={gradients}",
    )
    lines = [json.loads(line) for line in output.splitlines()]
    return [l["loss"] for l in lines], [l["grad_norm"] for l in lines], reference.read_safetensors(gradients)


def layer_of(parameter):
    parts = parameter.split(".")[:-1]
    return ".".join("*" if part.isdigit() else part for part in parts)


def gradient_errors(ours, theirs):
    """Layer -> the largest |difference| / norm of the layer's whole gradient, over the blocks."""
    errors = {}
    for parameter, expected in theirs.items():
        layer = parameter.rsplit(".", 1)[0]
        norm = numpy.sqrt(sum((g**2).sum() for name, g in theirs.items() if name.rsplit(".", 1)[0] == layer))
        error = abs(ours[parameter] - expected).max() / norm
        errors[layer_of(parameter)] = max(errors.get(layer_of(parameter), 0), error)
    return errors


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    settings = CASES["gpt"]
    # Biases start away from zero too.
    noise = numpy.random.RandomState(7)
    initial = {
        name: (value + 0.02 * noise.standard_normal(value.shape)).astype(numpy.float32)
        for name, value in reference.initial_parameters(settings).items()
    }
    per_batch = settings["batch"] * settings["context"]
    tokens = reference.words(reference.DATA, PERIOD)[numpy.arange(settings["steps"] * per_batch + 1) % PERIOD] % settings["vocab"]
    tokens = tokens.astype(numpy.int64)

    def batches(step):
        window = tokens[step * per_batch : (step + 1) * per_batch + 1]
        shape = (settings["batch"], settings["context"])
        return window[:-1].reshape(shape), window[1:].reshape(shape)

    with tempfile.TemporaryDirectory() as folder:
        ours = train_with_tapeout(sys.argv[1], settings, folder, initial, tokens)
    theirs = reference.train(settings, initial, batches, settings["steps"], torch.float64)

    def relative(a, b):
        return max(abs(x - y) / abs(y) for x, y in zip(a, b))

    steps, losses = settings["steps"], theirs[0]
    errors = gradient_errors(ours[2], theirs[2])
    print(f"gpt, {steps} steps of AdamW in float64, loss {losses[0]:.4f} -> {losses[-1]:.4f}; tapeout against PyTorch {torch.__version__}")
    print(f"largest relative difference of the losses          {relative(ours[0], losses):8.1e}")
    print(f"largest relative difference of the gradient norms  {relative(ours[1], theirs[1]):8.1e}")
    print("first gradients, largest difference / norm of the layer's gradient:")
    for layer, error in errors.items():
        print(f"  {layer:<24} {error:8.1e}")
    return 0 if relative(ours[0], losses) < LOSS_TOLERANCE and max(errors.values()) < GRADIENT_TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())

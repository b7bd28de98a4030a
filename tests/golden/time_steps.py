"""Step times of executables beside PyTorch's eager training of the same models, in turn, on one processor:
  python3 tests/golden/time_steps.py build/bin/tapeout [case...] [--rounds 3] [--steps 20]

Processor time of one thread (user and system), which other work on the machine disturbs less than wall time. Both train
from their own random start on random data; only the time counts. PyTorch gets one batch that lies in memory already, the
fused AdamW and attention by scaled_dot_product_attention where its version has them. Prints per case the step of each
round, and the ratio tapeout / PyTorch of the medians (below 1: tapeout is faster).
"""

import argparse
import os
import resource
import statistics
import subprocess
import tempfile

import numpy
import torch

import reference
import transformer_models

SIZES = {
    "llama": dict(model="llama", layers=4, heads=4, kv_heads=2, width=128, hidden=[352], context=64, vocab=256, batch=12),
    "bert": dict(model="bert", layers=4, heads=4, width=128, context=64, vocab=257, batch=12),
    "vit": dict(model="vit-b16", image=32, patch=4, layers=6, heads=3, width=192, classes=10, batch=16),
    "llama-768": dict(model="llama", layers=2, heads=12, kv_heads=4, width=768, hidden=[2048], context=256, vocab=256, batch=2),
    "bert-768": dict(model="bert", layers=2, heads=12, width=768, context=256, vocab=257, batch=2),
    "vit-768": dict(model="vit-b16", image=224, patch=16, layers=2, heads=12, width=768, classes=1000, batch=2),
}
SKIPPED = 3  # first steps of a run


def fast_attention(q, k, v, causal):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def write_data(folder, settings):
    """The options that name the data."""
    data = os.path.join(folder, "data")
    if "classes" not in settings:
        numpy.random.RandomState(1).randint(97, 123, 1 << 20).astype(numpy.uint8).tofile(data)
        return ["--data", data]
    count, image = 64, settings["image"]
    numpy.save(data + ".npy", numpy.random.RandomState(1).rand(count, 3, image, image).astype(numpy.float32))
    numpy.save(data + "-labels.npy", numpy.arange(count) % settings["classes"])
    return ["--data", data + ".npy", "--labels", data + "-labels.npy"]


def compile_model(tapeout, folder, settings):
    options = []
    for name, value in settings.items():
        if name not in ("model", "batch"):
            options += ["--" + name.replace("kv_heads", "kv-heads"), str(value[0] if isinstance(value, list) else value)]
    model, executable = os.path.join(folder, "m.tape"), os.path.join(folder, "m")
    run(tapeout, "model", settings["model"], *options, "-o", model)
    run(tapeout, "compile", model, "-o", executable, "--batch", str(settings["batch"]))
    return executable


def processor_time(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def time_executable(executable, data, steps):
    """Of a long run without its start and its first steps, which are a short run."""
    times = []
    for count in SKIPPED, SKIPPED + steps:
        before = processor_time(resource.RUSAGE_CHILDREN)
        run(executable, *data, "--steps", str(count), "--threads", "1")
        times.append(processor_time(resource.RUSAGE_CHILDREN) - before)
    return (times[1] - times[0]) / steps


def time_pytorch(settings, steps):
    recipes, forward = reference.MODELS[settings["model"]](settings)
    parameters = {}
    for name, (shape, (kind, mean, deviation)) in recipes.items():
        value = torch.full(shape, mean) if kind == "constant" else torch.randn(shape) * deviation
        parameters[name] = value.requires_grad_()
    try:
        optimizer = torch.optim.AdamW(parameters.values(), lr=1e-3, fused=True)
    except (TypeError, RuntimeError):
        optimizer = torch.optim.AdamW(parameters.values(), lr=1e-3)
    data, labels = (torch.from_numpy(x) for x in reference.hashed_batch(settings, 0))
    data = data.float() if data.is_floating_point() else data
    for step in range(SKIPPED + steps):
        if step == SKIPPED:
            start = processor_time(resource.RUSAGE_SELF)
        optimizer.zero_grad()
        loss = reference.loss_of(settings, forward(parameters, data), labels)
        loss.backward()
        optimizer.step()
        loss.item()
    return (processor_time(resource.RUSAGE_SELF) - start) / steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tapeout")
    parser.add_argument("cases", nargs="*")
    for option, default in ("rounds", 3), ("steps", 20):
        parser.add_argument("--" + option, type=int, default=default)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        transformer_models.attention = fast_attention
    print(f"PyTorch {torch.__version__}; processor ms per step, mean of {arguments.steps} steps")
    for name in arguments.cases or SIZES:
        settings = SIZES[name]
        with tempfile.TemporaryDirectory() as folder:
            executable = compile_model(arguments.tapeout, folder, settings)
            data = write_data(folder, settings)
            ours, theirs = [], []
            for _ in range(arguments.rounds):
                ours.append(1000 * time_executable(executable, data, arguments.steps))
                theirs.append(1000 * time_pytorch(settings, arguments.steps))
        ratio = statistics.median(ours) / statistics.median(theirs)
        text = "  ".join(f"{a:.1f}/{b:.1f}" for a, b in zip(ours, theirs))
        print(f"{name:<10} tapeout/PyTorch {text}   ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The training steps that tapeout is compared with, in PyTorch on one GPU: bf16 autocast, fused AdamW, clip 1.

  python3 torch_step.py gpt2-124m --batch 64 --mode compile

Prints one JSON object: milliseconds of each measured step, seconds to the end of the first one, parameters, peak memory.
Models are those of frontend/models (gpt2-124m; bert-large with 512 tokens and a label at every position; mlp with 8 x 1,024 and
1,000 classes). Vocabularies are rounded up to a multiple of 64, as PyTorch users do for speed. Modes: eager, compile
(torch.compile), reduce-overhead (torch.compile with CUDA graphs).
"""

import time

PROCESS_START = time.perf_counter()

import argparse
import json

import torch
from torch import nn

import torch_models

WARM_UP, STEPS = 10, 30
MODELS = {
    "gpt2-124m": lambda: torch_models.Gpt(layers=12, heads=12, width=768, context=1024, vocabulary=50304),
    "bert-large": lambda: torch_models.Bert(layers=24, heads=16, width=1024, context=512, vocabulary=30528),
    "mlp": lambda: torch_models.Perceptron(inputs=1024, hidden=[1024] * 8, classes=1000),
}


def random_batch(model, batch):
    if isinstance(model, torch_models.Perceptron):
        inputs, classes = model.layers[0].in_features, model.layers[-1].out_features
        return torch.rand(batch, inputs, device="cuda"), torch.randint(classes, (batch,), device="cuda")
    positions = model.wpe.weight if isinstance(model, torch_models.Gpt) else model.embedding.positions
    shape = (batch, len(positions))
    return tuple(torch.randint(model.wte.num_embeddings, shape, device="cuda") for _ in range(2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--mode", choices=["eager", "compile", "reduce-overhead"], default="compile")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    model = MODELS[arguments.model]().cuda().train()
    batches = [random_batch(model, arguments.batch) for _ in range(4)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def loss_of(data, labels):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(data)
        return torch_models.loss_of(logits, labels)

    if arguments.mode != "eager":
        loss_of = torch.compile(loss_of, mode=None if arguments.mode == "compile" else arguments.mode, dynamic=False)

    def step(number):
        loss_of(*batches[number % len(batches)]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step(0)
    torch.cuda.synchronize()
    first = time.perf_counter() - PROCESS_START
    for i in range(WARM_UP):
        step(i)
    torch.cuda.reset_peak_memory_stats()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(STEPS + 1)]
    events[0].record()
    for i in range(STEPS):
        step(i)
        events[i + 1].record()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    print(
        json.dumps(
            {
                "peer": f"torch {torch.__version__.split('+')[0]} {arguments.mode}",
                "parameters": sum(p.numel() for p in model.parameters()),
                "milliseconds": [begin.elapsed_time(end) for begin, end in zip(events, events[1:])],
                "first_step_s": first,
                "allocated": torch.cuda.max_memory_allocated(),
                "reserved": torch.cuda.max_memory_reserved(),
                "used_on_device": total - free,
            }
        )
    )


if __name__ == "__main__":
    main()

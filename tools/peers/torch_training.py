#!/usr/bin/env python3
"""Trains a GPT of tapeout in PyTorch: from its initial weights, on its batches, with its optimizer.

  python3 torch_training.py --weights start.safetensors --heads 6 --data text --batch 12 --steps 300 --precision bf16

fp16 and bf16 are autocast, fp16 with GradScaler. Prints one JSON list, the losses of the steps.
"""

import argparse
import itertools
import json
import pathlib
import struct
import sys

import torch

import torch_models

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from gpu_check.sample_order import windows


def read_weights(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    assert all(entry["dtype"] == "F32" for entry in header.values())
    return {
        name: torch.frombuffer(data[slice(*entry["data_offsets"])], dtype=torch.float32).reshape(entry["shape"])
        for name, entry in header.items()
    }


def load_gpt(path, heads):
    weights = read_weights(path)
    (vocabulary, width), (context, _) = weights["wte.weight"].shape, weights["wpe.weight"].shape
    layers = sum(name.endswith("qkv.weight") for name in weights)
    model = torch_models.Gpt(layers, heads, width, context, vocabulary)
    model.load_state_dict(weights)  # every name and shape
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", required=True)
    parser.add_argument("--heads", type=int, required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--precision", choices=["fp32", "bf16", "fp16"], required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()

    device = arguments.device
    model = load_gpt(arguments.weights, arguments.heads).to(device).train()
    context = len(model.wpe.weight)
    with open(arguments.data, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    starts = windows(len(text), context, arguments.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / max(arguments.warmup, 1)))
    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(arguments.precision)
    scaler = torch.amp.GradScaler(device, enabled=arguments.precision == "fp16")

    losses = []
    for _ in range(arguments.steps):
        samples = torch.stack([text[start : start + context + 1] for start in itertools.islice(starts, arguments.batch)]).to(
            device
        )
        with torch.autocast(device, dtype=low, enabled=low is not None):
            logits = model(samples[:, :-1])
        loss = torch_models.loss_of(logits, samples[:, 1:])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        rate.step()
        losses.append(loss.detach())
    print(json.dumps(torch.stack(losses).tolist()))


if __name__ == "__main__":
    main()

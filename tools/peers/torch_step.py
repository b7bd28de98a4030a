#!/usr/bin/env python3
"""The training steps that tapeout is compared with, in PyTorch on one GPU: bf16 autocast, fused AdamW, clip 1.

  python3 torch_step.py gpt2-124m --batch 64 --mode compile

Prints one JSON object: median and least milliseconds of a step, the seconds to the end of the first one, peak GiB. Models:
gpt2-124m (1,024 tokens), encoder-large (the shape of BERT-large, 512 tokens, a loss at every position) and mlp (8 x 1,024).
Vocabularies are rounded up to a multiple of 64, as PyTorch users do for speed. Modes: eager, compile (torch.compile),
reduce-overhead (torch.compile with CUDA graphs).
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

WARM_UP, STEPS = 6, 20


class Layer(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = (parts[:, :, i].transpose(1, 2) for i in range(3))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Transformer(nn.Module):
    """Pre-norm transformer with tied embedding; predicts a token at every position."""

    def __init__(self, layers, width, heads, vocabulary, context, causal):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.layers = nn.Sequential(*(Layer(width, heads, causal) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, 0, 0.02)

    def forward(self, x):
        hidden = self.tokens(x) + self.positions.weight[: x.shape[1]]
        return self.norm(self.layers(hidden)) @ self.tokens.weight.T


def perceptron(width=1024, layers=8, classes=1000):
    hidden = [module for _ in range(layers) for module in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(width, classes))


def build(name, batch):
    """The model and a few batches to take turns with."""
    if name == "mlp":
        draw = lambda: (torch.randn(batch, 1024, device="cuda"), torch.randint(1000, (batch,), device="cuda"))
        return perceptron(), [draw() for _ in range(4)]
    sizes = {"gpt2-124m": (12, 768, 12, 50304, 1024, True), "encoder-large": (24, 1024, 16, 30528, 512, False)}[name]
    vocabulary, context = sizes[3], sizes[4]
    draw = lambda: torch.randint(vocabulary, (batch, context), device="cuda")
    return Transformer(*sizes), [(draw(), draw()) for _ in range(4)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=["gpt2-124m", "encoder-large", "mlp"])
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--mode", choices=["eager", "compile", "reduce-overhead"], default="compile")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    model, data = build(arguments.model, arguments.batch)
    model = model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def loss_of(x, y):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(x)
        return functional.cross_entropy(logits.flatten(0, -2).float(), y.flatten())

    if arguments.mode != "eager":
        loss_of = torch.compile(loss_of, mode=None if arguments.mode == "compile" else arguments.mode, dynamic=False)

    def step(x, y):
        loss_of(x, y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    start = time.perf_counter()
    step(*data[0])
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    for i in range(WARM_UP):
        step(*data[i % len(data)])
    events = [torch.cuda.Event(enable_timing=True) for _ in range(STEPS + 1)]
    events[0].record()
    for i in range(STEPS):
        step(*data[i % len(data)])
        events[i + 1].record()
    torch.cuda.synchronize()
    times = [begin.elapsed_time(end) for begin, end in zip(events, events[1:])]
    print(json.dumps({
        "peer": f"torch {torch.__version__} {arguments.mode}",
        "model": arguments.model,
        "batch": arguments.batch,
        "step_ms": round(statistics.median(times), 3),
        "least_ms": round(min(times), 3),
        "first_step_s": round(first, 1),
        "peak_gib": round(torch.cuda.max_memory_reserved() / 2**30, 2),
    }))


if __name__ == "__main__":
    main()

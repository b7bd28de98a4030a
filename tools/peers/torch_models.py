"""The models that tapeout is compared with, in PyTorch: the layers and the names of frontend/models, so that exported weights
load by load_state_dict. docs/models.md says what each one is.
"""

import math

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = (parts[:, :, i].transpose(1, 2) for i in range(3))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    """The wide part of a block."""

    def __init__(self, width, approximate):
        super().__init__()
        self.approximate = approximate
        self.fc, self.proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.proj(functional.gelu(self.fc(x), approximate=self.approximate))


class Block(nn.Module):
    """Norms come before each branch, as in GPT-2, or after each sum, as in BERT."""

    def __init__(self, width, heads, causal, norm_first, epsilon, approximate):
        super().__init__()
        self.norm_first = norm_first
        self.ln1, self.ln2 = nn.LayerNorm(width, eps=epsilon), nn.LayerNorm(width, eps=epsilon)
        self.attn, self.mlp = Attention(width, heads, causal), Mlp(width, approximate)

    def forward(self, x):
        if self.norm_first:
            x = x + self.attn(self.ln1(x))
            return x + self.mlp(self.ln2(x))
        x = self.ln1(x + self.attn(x))
        return self.ln2(x + self.mlp(x))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, context, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, True, True, 1e-5, "tanh") for _ in range(layers))
        self.lnf = nn.LayerNorm(width)
        start_normally(self)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.lnf(x), self.wte.weight)


class Positions(nn.Module):
    def __init__(self, context, width, epsilon):
        super().__init__()
        self.positions = nn.Parameter(torch.empty(context, width))
        self.ln = nn.LayerNorm(width, eps=epsilon)

    def forward(self, x):
        return self.ln(x + self.positions)


class MaskedHead(nn.Module):
    def __init__(self, width, vocabulary, epsilon):
        super().__init__()
        self.fc, self.ln = nn.Linear(width, width), nn.LayerNorm(width, eps=epsilon)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, x, table):
        return functional.linear(self.ln(functional.gelu(self.fc(x))), table, self.bias)


class Bert(nn.Module):
    def __init__(self, layers, heads, width, context, vocabulary):
        super().__init__()
        epsilon = 1e-12
        self.wte, self.embedding = nn.Embedding(vocabulary, width), Positions(context, width, epsilon)
        self.blocks = nn.ModuleList(Block(width, heads, False, False, epsilon, "none") for _ in range(layers))
        self.head = MaskedHead(width, vocabulary, epsilon)
        start_normally(self)

    def forward(self, tokens):
        x = self.embedding(self.wte(tokens))
        for block in self.blocks:
            x = block(x)
        return self.head(x, self.wte.weight)


class Perceptron(nn.Module):
    def __init__(self, inputs, hidden, classes):
        super().__init__()
        sizes = [inputs, *hidden, classes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = functional.relu(layer(x))
        return self.layers[-1](x)


def start_normally(model, deviation=0.02):
    """The start of frontend/models; branches of a residual sum of norms-first blocks start smaller."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif parameter.dim() > 1:
            is_branch = isinstance(model, Gpt) and name.endswith("proj.weight")
            nn.init.normal_(parameter, 0, deviation / math.sqrt(2 * len(model.blocks)) if is_branch else deviation)


def loss_of(logits, labels):
    return functional.cross_entropy(logits.flatten(0, -2).float(), labels.flatten())

"""The transformers of frontend/models beside gpt, in PyTorch: llama, bert and vit, for reference.py."""

import math

import torch

DEVIATION = 0.02
NORMAL = ("normal", 0.0, DEVIATION)
ZEROS, ONES = ("constant", 0.0, 0.0), ("constant", 1.0, 0.0)


def attention(q, k, v, causal):
    """q [batch, tokens, heads, size]; k and v may have fewer heads, each for a group of neighbours."""
    group = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(group, dim=2) for x in (k, v))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def llama(settings):
    layers, heads, key_heads = settings["layers"], settings["heads"], settings["kv_heads"]
    width, (hidden,), context = settings["width"], settings["hidden"], settings["context"]
    size = width // heads
    residual = ("normal", 0.0, DEVIATION / math.sqrt(2.0 * layers))
    recipes = {"wte.weight": ((settings["vocab"], width), NORMAL)}
    for i in range(layers):
        block = f"blocks.{i}"
        recipes[block + ".norm1.weight"] = ((width,), ONES)
        for name, count in ("q", heads), ("k", key_heads), ("v", key_heads):
            recipes[f"{block}.attn.{name}.weight"] = ((count * size, width), NORMAL)
        recipes[block + ".attn.proj.weight"] = ((width, width), residual)
        recipes[block + ".norm2.weight"] = ((width,), ONES)
        for name in "gate", "up":
            recipes[f"{block}.mlp.{name}.weight"] = ((hidden, width), NORMAL)
        recipes[block + ".mlp.down.weight"] = ((width, hidden), residual)
    recipes["norm.weight"] = ((width,), ONES)
    recipes["head.weight"] = ((settings["vocab"], width), NORMAL)

    def forward(p, tokens):
        dtype = p["wte.weight"].dtype
        frequencies = 10000 ** (torch.arange(0, size, 2, dtype=dtype) / -size)
        angles = torch.arange(context, dtype=dtype)[:, None, None] * torch.cat((frequencies, frequencies))

        def norm(name, x):
            return p[name + ".weight"] * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))

        def rotated(x):
            first, second = x.chunk(2, dim=-1)
            return x * angles.cos() + torch.cat((-second, first), -1) * angles.sin()

        x = p["wte.weight"][tokens]
        for i in range(layers):
            block = f"blocks.{i}"

            def linear(name, x):
                return x @ p[f"{block}.{name}.weight"].T

            h = norm(block + ".norm1", x)
            q, k, v = (linear("attn." + name, h).unflatten(-1, (-1, size)) for name in "qkv")
            x = x + linear("attn.proj", attention(rotated(q), rotated(k), v, causal=True))
            h = norm(block + ".norm2", x)
            x = x + linear("mlp.down", torch.nn.functional.silu(linear("mlp.gate", h)) * linear("mlp.up", h))
        return norm("norm", x) @ p["head.weight"].T

    return recipes, forward


class Encoder:
    """What bert and vit share: recipes and parts of a block, by the names of frontend/models/Encoder.h."""

    def __init__(self, width, heads, epsilon):
        self.width, self.heads, self.epsilon = width, heads, epsilon
        self.recipes = {}

    def add(self, name, *shape, recipe=NORMAL):
        self.recipes[name] = (shape, recipe)

    def add_linear(self, name, outputs, inputs):
        self.add(name + ".weight", outputs, inputs)
        self.add(name + ".bias", outputs, recipe=ZEROS)

    def add_norm(self, name):
        self.add(name + ".weight", self.width, recipe=ONES)
        self.add(name + ".bias", self.width, recipe=ZEROS)

    def add_attention(self, block):
        self.add_linear(block + ".attn.qkv", 3 * self.width, self.width)
        self.add_linear(block + ".attn.proj", self.width, self.width)

    def add_mlp(self, block):
        self.add_linear(block + ".mlp.fc", 4 * self.width, self.width)
        self.add_linear(block + ".mlp.proj", self.width, 4 * self.width)

    def linear(self, p, name, x):
        return torch.nn.functional.linear(x, p[name + ".weight"], p[name + ".bias"])

    def norm(self, p, name, x):
        return torch.nn.functional.layer_norm(x, (self.width,), p[name + ".weight"], p[name + ".bias"], self.epsilon)

    def attention(self, p, block, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)) for part in self.linear(p, block + ".attn.qkv", x).chunk(3, dim=-1))
        return self.linear(p, block + ".attn.proj", attention(q, k, v, causal=False))

    def mlp(self, p, block, x):
        return self.linear(p, block + ".mlp.proj", torch.nn.functional.gelu(self.linear(p, block + ".mlp.fc", x)))


def bert(settings):
    layers, width, vocabulary = settings["layers"], settings["width"], settings["vocab"]
    e = Encoder(width, settings["heads"], 1e-12)
    e.add("wte.weight", vocabulary, width)
    e.add("embedding.positions", settings["context"], width)
    e.add_norm("embedding.ln")
    for i in range(layers):
        block = f"blocks.{i}"
        e.add_attention(block)
        e.add_norm(block + ".ln1")
        e.add_mlp(block)
        e.add_norm(block + ".ln2")
    e.add_linear("head.fc", width, width)
    e.add_norm("head.ln")
    e.add("head.bias", vocabulary, recipe=ZEROS)

    def forward(p, tokens):
        x = e.norm(p, "embedding.ln", p["wte.weight"][tokens] + p["embedding.positions"])
        for i in range(layers):
            block = f"blocks.{i}"
            x = e.norm(p, block + ".ln1", x + e.attention(p, block, x))
            x = e.norm(p, block + ".ln2", x + e.mlp(p, block, x))
        x = e.norm(p, "head.ln", torch.nn.functional.gelu(e.linear(p, "head.fc", x)))
        return x @ p["wte.weight"].T + p["head.bias"]

    return e.recipes, forward


def vit(settings):
    layers, width, image, patch = settings["layers"], settings["width"], settings["image"], settings["patch"]
    e = Encoder(width, settings["heads"], 1e-6)
    e.add_linear("patches.fc", width, 3 * patch * patch)
    e.add("embedding.class", width)
    e.add("embedding.positions", (image // patch) ** 2 + 1, width)
    for i in range(layers):
        block = f"blocks.{i}"
        e.add_norm(block + ".ln1")
        e.add_attention(block)
        e.add_norm(block + ".ln2")
        e.add_mlp(block)
    e.add_norm("head.ln")
    e.add_linear("head.fc", settings["classes"], width)

    def forward(p, images):
        # As everybody else writes it: a convolution, and a norm of all tokens.
        kernel = p["patches.fc.weight"].reshape(width, 3, patch, patch)
        x = torch.nn.functional.conv2d(images, kernel, p["patches.fc.bias"], stride=patch).flatten(2).transpose(1, 2)
        x = torch.cat((p["embedding.class"].expand(len(x), 1, width), x), dim=1) + p["embedding.positions"]
        for i in range(layers):
            block = f"blocks.{i}"
            x = x + e.attention(p, block, e.norm(p, block + ".ln1", x))
            x = x + e.mlp(p, block, e.norm(p, block + ".ln2", x))
        return e.linear(p, "head.fc", e.norm(p, "head.ln", x)[:, 0])

    return e.recipes, forward


MODELS = {"llama": llama, "bert": bert, "vit-b16": vit}

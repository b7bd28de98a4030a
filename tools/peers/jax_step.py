#!/usr/bin/env python3
"""The training step of GPT-2 124M or of a perceptron in JAX on one GPU: jit, bf16 products, cuDNN attention, AdamW, clip 1.

  python3 jax_step.py gpt2-124m --batch 64

Prints one JSON object as torch_step.py does.
"""

import time

PROCESS_START = time.perf_counter()

import argparse
import functools
import json
import math
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # so that memory is what the step needs

import jax
import jax.numpy as jnp

try:
    import optax
except ImportError:
    optax = None

WARM_UP, STEPS = 10, 30
RATE, BETA1, BETA2, DECAY, EPSILON, CLIP = 3e-4, 0.9, 0.95, 0.1, 1e-8, 1.0
GPT = {"layers": 12, "heads": 12, "width": 768, "context": 1024, "vocabulary": 50304}
PERCEPTRON = {"width": 1024, "layers": 8, "classes": 1000}


def low(x):
    return x.astype(jnp.bfloat16)


def linear(p, x):
    return x @ low(p["weight"]) + low(p["bias"])


def cross_entropy(logits, labels):
    logits = logits.astype(jnp.float32)
    chosen = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - chosen).mean()


# --- GPT-2 ---


def start_gpt(layers, heads, width, context, vocabulary):
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 4 * layers + 2))

    def normal(*shape, deviation=0.02):
        return deviation * jax.random.normal(next(keys), shape)

    def dense(inputs, outputs, deviation=0.02):
        return {"weight": normal(inputs, outputs, deviation=deviation), "bias": jnp.zeros(outputs)}

    def norm():
        return {"weight": jnp.ones(width), "bias": jnp.zeros(width)}

    def block():
        branch = 0.02 / math.sqrt(2 * layers)
        return {
            "ln1": norm(),
            "qkv": dense(width, 3 * width),
            "mix": dense(width, width, branch),
            "ln2": norm(),
            "fc": dense(width, 4 * width),
            "proj": dense(4 * width, width, branch),
        }

    return {
        "wte": normal(vocabulary, width),
        "wpe": normal(context, width),
        "lnf": norm(),
        "blocks": [block() for _ in range(layers)],
    }


def layer_norm(p, x):
    x = x.astype(jnp.float32)
    centred = x - x.mean(-1, keepdims=True)
    return low(centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * p["weight"] + p["bias"])


def gpt_loss(p, tokens, labels):
    x = low(p["wte"][tokens] + p["wpe"])
    batch, count, width = x.shape
    heads = GPT["heads"]
    for block in p["blocks"]:
        parts = linear(block["qkv"], layer_norm(block["ln1"], x)).reshape(batch, count, 3, heads, width // heads)
        mixed = jax.nn.dot_product_attention(*(parts[:, :, i] for i in range(3)), is_causal=True, implementation="cudnn")
        x = x + linear(block["mix"], mixed.reshape(batch, count, width))
        x = x + linear(block["proj"], jax.nn.gelu(linear(block["fc"], layer_norm(block["ln2"], x)), approximate=True))
    return cross_entropy(layer_norm(p["lnf"], x) @ low(p["wte"]).T, labels)


# --- Perceptron ---


def start_perceptron(width, layers, classes):
    sizes = [width] * (layers + 1) + [classes]
    key, bound = jax.random.PRNGKey(0), width**-0.5
    return [
        {
            "weight": jax.random.uniform(jax.random.fold_in(key, i), shape, minval=-bound, maxval=bound),
            "bias": jnp.zeros(shape[1]),
        }
        for i, shape in enumerate(zip(sizes, sizes[1:]))
    ]


def perceptron_loss(p, x, labels):
    x = low(x)
    for layer in p[:-1]:
        x = jax.nn.relu(linear(layer, x))
    return cross_entropy(linear(p[-1], x), labels)


# --- Training ---


def make_adamw():
    """(init, update) of optax where it is installed, else the same by hand."""
    if optax:
        chain = optax.chain(optax.clip_by_global_norm(CLIP), optax.adamw(RATE, BETA1, BETA2, EPSILON, weight_decay=DECAY))

        def update(p, state, gradients):
            changes, state = chain.update(gradients, state, p)
            return optax.apply_updates(p, changes), state

        return chain.init, update

    def init(p):
        zeros = jax.tree.map(jnp.zeros_like, p)
        return zeros, jax.tree.map(jnp.zeros_like, p), jnp.zeros((), jnp.int32)

    def update(p, state, gradients):
        m, v, count = state
        norm = jnp.sqrt(sum((g**2).sum() for g in jax.tree.leaves(gradients)))
        gradients = jax.tree.map(lambda g: g * jnp.minimum(1, CLIP / norm), gradients)
        count = count + 1
        m = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, gradients)
        v = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g**2, v, gradients)
        first, second = 1 - BETA1**count, 1 - BETA2**count
        p = jax.tree.map(lambda p, m, v: p - RATE * (m / first / (jnp.sqrt(v / second) + EPSILON) + DECAY * p), p, m, v)
        return p, (m, v, count)

    return init, update


def prepare(name, batch):
    """(parameters, loss, batches to take turns with)."""

    def draw(i, shape, below):
        return jax.random.randint(jax.random.PRNGKey(i), shape, 0, below)

    if name == "mlp":
        data = [
            (
                jax.random.uniform(jax.random.PRNGKey(i), (batch, PERCEPTRON["width"])),
                draw(i + 9, (batch,), PERCEPTRON["classes"]),
            )
            for i in range(4)
        ]
        return start_perceptron(**PERCEPTRON), perceptron_loss, data
    shape = (batch, GPT["context"])
    return (
        start_gpt(**GPT),
        gpt_loss,
        [(draw(i, shape, GPT["vocabulary"]), draw(i + 9, shape, GPT["vocabulary"])) for i in range(4)],
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=["gpt2-124m", "mlp"])
    parser.add_argument("--batch", type=int, required=True)
    arguments = parser.parse_args()

    p, loss_of, batches = prepare(arguments.model, arguments.batch)
    init, update = make_adamw()
    state = init(p)
    parameters = sum(x.size for x in jax.tree.leaves(p))

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(p, state, data, labels):
        loss, gradients = jax.value_and_grad(loss_of)(p, data, labels)
        return *update(p, state, gradients), loss

    def run(steps):
        """Milliseconds of a step, the mean of `steps` queued ones."""
        nonlocal p, state
        start = time.perf_counter()
        for i in range(steps):
            p, state, loss = step(p, state, *batches[i % len(batches)])
        loss.block_until_ready()
        return 1e3 * (time.perf_counter() - start) / steps

    run(1)
    first = time.perf_counter() - PROCESS_START
    run(WARM_UP)
    milliseconds = [run(3) for _ in range(STEPS // 3)]
    print(
        json.dumps(
            {
                "peer": f"JAX {jax.__version__}",
                "parameters": parameters,
                "milliseconds": milliseconds,
                "first_step_s": first,
                "allocated": jax.devices()[0].memory_stats()["peak_bytes_in_use"],
            }
        )
    )


if __name__ == "__main__":
    main()

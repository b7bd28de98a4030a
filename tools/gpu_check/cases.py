"""What is compiled and checked."""

import dataclasses


@dataclasses.dataclass
class Precision:
    """What a step is computed in."""

    name: str
    bound: float  # on the relative difference of 20 losses on cuda and on the cpu
    level: str = "O1"

    @property
    def options(self):
        return ("--precision", self.name, *(("--amp-level", self.level) if self.is_low else ()))

    @property
    def is_low(self):
        return self.name != "fp32"


PRECISIONS = {
    "fp32": Precision("fp32", 2e-5),
    "bf16": Precision("bf16", 3e-3),
    "fp16": Precision("fp16", 1e-3),
    "bf16-O2": Precision("bf16", 3e-3, "O2"),
    "fp16-O2": Precision("fp16", 1e-3, "O2"),
}
SMALL = {  # for the comparison with the cpu: model, its options, batch
    "gpt": ("gpt", (), 12),
    "gpt-64": ("gpt", ("--heads", "2"), 12),  # heads of 64 elements, whose gradient is ours
    "llama": ("llama", (), 12),
    "bert": ("bert", (), 12),
    "mlp": ("mlp", (), 64),
    "vit": (
        "vit-b16",
        ("--image", "32", "--patch", "4", "--layers", "2", "--heads", "3", "--width", "192", "--classes", "10"),
        32,
    ),
}
IN_CHUNKS = ("gpt-64", "bert")  # of these, whose logits are computed in three chunks: a tied table; a bias


@dataclasses.dataclass
class Bench:
    """A training step whose time is compared with the peers' (tools/peers)."""

    model: str
    batch: int
    options: tuple  # of `tapeout model`
    peers: tuple

    @property
    def has_attention(self):
        return self.model != "mlp"


def nondeterministic(plan):
    """The plan of the same step whose attention is the library's, in both directions, and may add in any order."""
    return f"{plan}-nondeterministic"


def level2(plan):
    """The plan of the same step whose residual and parameters are of low precision too."""
    return f"{plan}-O2"


COMPILED = ("compile", "reduce-overhead")  # of PyTorch
BENCHES = {
    "gpt2-124m-b8": Bench("gpt2-124m", 8, ("--vocab", "50304"), ("eager", *COMPILED, "jax")),
    "gpt2-124m-b64": Bench("gpt2-124m", 64, ("--vocab", "50304"), (*COMPILED, "jax")),
    "bert-large-b64": Bench("bert-large", 64, ("--vocab", "30528"), COMPILED),
    "mlp-b256": Bench(
        "mlp", 256, ("--inputs", "1024", "--hidden", ",".join(["1024"] * 8), "--classes", "1000"), ("eager", *COMPILED, "jax")
    ),
}
PEERS = ("eager", "compile", "reduce-overhead", "jax")

CONVERGENCE = {"layers": 6, "heads": 6, "width": 384, "context": 256, "vocab": 256}  # the GPT that trains on real text
CONVERGENCE_BATCH = 12

# Tiny models of odd sizes that have every kind of kernel among them: model, its options, batch, precision.
SANITIZED = {
    # Loss scaling; dropout; the embedding's sorted gradient; many tensors at once.
    "gpt-tiny": ("gpt", ("--layers", "1", "--heads", "2", "--width", "64", "--context", "31", "--dropout", "0.1"), 3, "fp16"),
    # Rows of 50,304 logits in shared memory; attention by the library, whose gradients are joined.
    "gpt-tokens": (
        "gpt",
        ("--layers", "1", "--heads", "2", "--width", "128", "--context", "64", "--vocab", "50304"),
        2,
        "bf16",
    ),
    # The same rows too long for shared memory; decomposed attention with dropout; rotary positions, groups of query heads.
    "llama-tokens": (
        "llama",
        ("--layers", "1", "--width", "64", "--context", "31", "--vocab", "50304", "--dropout", "0.1"),
        2,
        "fp32",
    ),
    # Sums of long columns in parts; rows of fewer elements than a warp has threads.
    "mlp-tall": ("mlp", ("--hidden", "97"), 2047, "fp32"),
    # Patches by transposition, concatenation, slices; enough rows that kernels of rows also sum their columns.
    "vit-tiny": (
        "vit-b16",
        ("--image", "32", "--patch", "8", "--layers", "1", "--heads", "3", "--width", "96", "--classes", "10"),
        128,
        "bf16",
    ),
}

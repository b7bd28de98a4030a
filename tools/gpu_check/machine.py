"""What the commands of gpu-check share on the machine with the GPU: paths, data, runs of plans, their results."""

import json
import pathlib
import random
import shutil
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent


def runner(plan, *options):
    return [HERE / "tapeout-runner", "--plan", HERE / f"{plan}.plan", *options]


def train(plan, data, steps, *options):
    """The lines of metrics.jsonl of a run from the start. `data`: the options for it."""
    logs = HERE / f"logs-{plan}"
    shutil.rmtree(logs, ignore_errors=True)
    subprocess.run(
        runner(plan, *data, "--steps", str(steps), "--log-dir", logs, *options), check=True, stdout=subprocess.DEVNULL
    )
    return [json.loads(line) for line in (logs / "metrics.jsonl").read_text().splitlines()]


def peer(script, *options, limit=150):
    """The last line of a peer's output, from JSON; None, and what it said, when it fails."""
    command = [sys.executable, HERE / "peers" / script, *map(str, options)]
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"{script} {' '.join(map(str, options))}: no answer in {limit} s")
        return None
    if result.returncode == 0:
        return json.loads(result.stdout.splitlines()[-1])
    print(f"{script} {' '.join(map(str, options))}: exit code {result.returncode}\n{result.stderr[-600:]}")
    return None


# --- Data, the same every time ---


def data_of(plan):
    """Options for the data of a small plan."""
    for kind, file in {"mlp": "x.npy", "vit": "images.npy"}.items():
        if plan.startswith(kind):
            return ["--data", HERE / file, "--labels", HERE / "y.npy"]
    return ["--data", HERE / ("tokens.bin" if "tokens" in plan else "text")]


def write_array(path, kind, shape, numbers):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + numbers)


def write_data():
    """Text for the language models, arrays with labels for the others."""
    draw = random.Random(1)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(2000)]
    (HERE / "text").write_text(" ".join(draw.choices(words, k=200000)))
    count = 640
    vectors = struct.pack(f"<{count * 784}f", *(draw.random() for _ in range(count * 784)))
    write_array(HERE / "x.npy", "<f4", (count, 784), vectors)
    write_array(HERE / "images.npy", "|u1", (count, 3, 32, 32), draw.randbytes(count * 3 * 32 * 32))
    write_array(HERE / "y.npy", "<i4", (count,), struct.pack(f"<{count}i", *(draw.randrange(10) for _ in range(count))))
    write_tokens()


def write_tokens():
    draw = random.Random(1)
    tokens = [min(30521, int(draw.paretovariate(0.4))) for _ in range(300000)]
    header = struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253)
    (HERE / "tokens.bin").write_bytes(header + struct.pack(f"<{len(tokens)}H", *tokens))


def read_tensors(path):
    """The tensors of a safetensors file: name -> bytes."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    start = 8 + length
    return {
        name: content[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]] for name, entry in header.items()
    }

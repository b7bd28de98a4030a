"""gpu-check numerics: products, kernels and training steps against the cpu, and what infinite gradients do."""

import json
import random
import shutil
import struct
import subprocess

from gpu_check.cases import PRECISIONS, SMALL
from gpu_check.machine import HERE, data_of, read_tensors, runner, train, write_array, write_data
from gpu_check.sample_order import permuted

STEPS = 20
OVERFLOW_STEPS, OVERFLOW_INPUTS, OVERFLOW_BATCH, SEED = 12, 784, 64, 1


def losses(plan):
    return [line["loss"] for line in train(plan, data_of(plan), STEPS)]


def compare_losses(name, precision):
    """Whether 20 losses are near those of the cpu, and the same in two runs."""
    bound = PRECISIONS[precision].bound
    try:
        cpu, first, second = (losses(f"{name}-{precision}-{target}") for target in ("cpu", "cuda", "cuda"))
    except subprocess.CalledProcessError as error:
        print(f"{name:8} {precision:10} exit code {error.returncode} WRONG")
        return False
    difference = max(abs(a - b) / abs(a) for a, b in zip(cpu, first))
    same = first == second
    good = difference <= bound and same
    found = f"{difference:<30.2e} {bound:<8.0e} {'same bits' if same else 'DIFFER':10}"
    print(f"{name:8} {precision:10} {found} {'ok' if good else 'WRONG'}", flush=True)
    return good


# --- A forced overflow: samples that are infinite in fp16 ---


def write_overflowing_data():
    """Samples for all steps once; two of them are too large for fp16. Returns the steps, from 1 on, that read these."""
    draw = random.Random(2)
    count = OVERFLOW_STEPS * OVERFLOW_BATCH
    values = [draw.random() for _ in range(count * OVERFLOW_INPUTS)]
    large = (count // 3, count // 2)
    for sample in large:
        values[sample * OVERFLOW_INPUTS] = 1e6
    write_array(HERE / "overflow-x.npy", "<f4", (count, OVERFLOW_INPUTS), struct.pack(f"<{len(values)}f", *values))
    write_array(
        HERE / "overflow-y.npy", "<i4", (count,), struct.pack(f"<{count}i", *(draw.randrange(10) for _ in range(count)))
    )
    return sorted({1 + position // OVERFLOW_BATCH for position in range(count) if permuted(position, count, SEED, 0) in large})


def overflow_run(target):
    """(state after every step, lines of metrics.jsonl)."""
    folder = HERE / f"overflow-{target}"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(
        runner(
            f"mlp-fp16-{target}",
            "--data",
            HERE / "overflow-x.npy",
            "--labels",
            HERE / "overflow-y.npy",
            "--seed",
            str(SEED),
            "--steps",
            str(OVERFLOW_STEPS),
            "--checkpoint-dir",
            folder / "checkpoints",
            "--checkpoint-every",
            "1",
            "--keep",
            "100",
            "--log-dir",
            folder,
        ),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [read_tensors(path / "state.safetensors") for path in sorted((folder / "checkpoints").glob("step-*"))], metrics


def skipped_steps(target):
    """Three times the steps after the first that were skipped: by the state, which is as before but for the loss scale's;
    by the loss scale, which shrinks; and as metrics.jsonl counts them."""
    states, metrics = overflow_run(target)
    trained = [{name: value for name, value in state.items() if not name.startswith("loss_scale/")} for state in states]
    later = range(1, OVERFLOW_STEPS)
    return [
        [i + 1 for i in later if trained[i] == trained[i - 1]],
        [i + 1 for i in later if states[i].get("loss_scale/scale") != states[i - 1].get("loss_scale/scale")],
        [i + 1 for i in later if metrics[i].get("skipped_steps", 0) > metrics[i - 1].get("skipped_steps", 0)],
    ]


def check_overflow():
    """Whether the steps that read a sample too large for fp16, and no others, change nothing; on both targets."""
    expected, good = write_overflowing_data(), True
    for target in ("cpu", "cuda"):
        skipped = skipped_steps(target)
        right = all(steps == expected for steps in skipped)
        found = f"skipped: {skipped[0]} {'ok' if right else f'WRONG {skipped}'}"
        print(f"fp16 on {target}: gradients of the steps {expected} are infinite; {found}", flush=True)
        good &= right
    return good


def numerics():
    write_data()
    tests = ([], ["--own-kernels", HERE / "own-kernels"])
    good = [subprocess.run([HERE / "tapeout-gpu-test", *options]).returncode == 0 for options in tests]
    print(f"{'model':8} {'precision':10} {'largest difference of a loss':30} {'bound':8} {'two runs':10}")
    good += [compare_losses(name, precision) for name in SMALL for precision in PRECISIONS]
    good.append(check_overflow())
    return all(good)

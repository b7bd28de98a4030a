"""gpu-check bench: step times beside the same models in PyTorch and JAX, memory, and the time to the first step."""

import json
import re
import statistics
import subprocess
import time

from gpu_check.cases import BENCHES, level2, nondeterministic
from gpu_check.machine import HERE, peer, runner

WARM_UP, STEPS = 20, 40  # as long as the peers are measured: a GPU becomes slower when it is warm
GIB = 2**30


def parameters(plan):
    text = subprocess.run(runner(plan, "--describe"), check=True, stdout=subprocess.PIPE, text=True).stdout
    return int(re.search(r"^parameters +(\d+) trained", text, re.MULTILINE)[1])


def used_on_device():
    """Bytes of the GPU's memory in use by everybody, or None."""
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], stdout=subprocess.PIPE, text=True
        )
        return int(answer.stdout.split()[0]) * 2**20
    except (OSError, ValueError, IndexError):
        return None


def measure(plan):
    """A start of our own program, on random data."""
    start = time.perf_counter()
    with subprocess.Popen(runner(plan, "--bench"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        hello = json.loads(process.stdout.readline())

        def steps(count):
            process.stdin.write(f"{count}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())["seconds"]

        steps(1)
        first = time.perf_counter() - start
        steps(WARM_UP)
        seconds = steps(STEPS)
        used = used_on_device()
        process.stdin.close()
    return {
        "milliseconds": [1e3 * s for s in seconds],
        "first_step_s": first,
        "planned": hello["memory_planned"],
        "used_on_device": used,
    }


def measure_twice(plan, between):
    """Our own step before and after the peers'; the first start tunes, the second finds its choices."""
    (HERE / f"{plan}.plan.tuning.json").unlink(missing_ok=True)
    first = measure(plan)
    others = between()
    second = measure(plan)
    compiled = json.loads((HERE / "compile-seconds.json").read_text())[plan]
    own = {
        **first,
        "peer": "tapeout",
        "parameters": parameters(plan),
        "milliseconds": first["milliseconds"] + second["milliseconds"],
        "starts": f"{compiled:.1f} + {first['first_step_s']:.1f}; {second['first_step_s']:.1f}",
    }
    return [own, *others]


def measure_variant(plan, title):
    """Our own step, compiled with the options that `title` names."""
    (HERE / f"{plan}.plan.tuning.json").unlink(missing_ok=True)
    row = measure(plan)
    return {**row, "peer": title, "parameters": parameters(plan), "allocated": row["planned"]}


def measure_peer(case, name):
    if name == "jax":
        return peer("jax_step.py", case.model, "--batch", case.batch)
    return peer("torch_step.py", case.model, "--batch", case.batch, "--mode", name)


def measure_others(plan, case, wanted):
    own = [measure_variant(level2(plan), "level O2")]
    if case.has_attention:
        own.append(measure_variant(nondeterministic(plan), "deterministic off"))
    return own + [answer for name in case.peers if name in wanted and (answer := measure_peer(case, name))]


def gib(row, key):
    return f"{row[key] / GIB:.2f}" if row.get(key) else "-"


def report(plan, rows):
    own = rows[0]
    columns = f"{'ms':>8} {'least':>8} {'quartiles':>17} {'ratio':>6} {'GiB':>6} {'reserved':>8} {'device':>7}"
    print(f"\n{plan:28} {columns}  seconds to the first step")
    for row in rows:
        low, median, high = statistics.quantiles(row["milliseconds"], n=4)
        ratio = statistics.median(own["milliseconds"]) / median
        memory = [gib(row, key) for key in ("planned" if row is own else "allocated", "reserved", "used_on_device")]
        starts = row.get("starts") or f"{row['first_step_s']:.1f}"
        times = f"{median:8.2f} {min(row['milliseconds']):8.2f} {low:8.2f} {high:8.2f} {ratio:6.3f}"
        print(f"{row['peer']:28} {times} {memory[0]:>6} {memory[1]:>8} {memory[2]:>7}  {starts}")
    counts = {row["parameters"] for row in rows}
    print(f"parameters: {' '.join(map(str, counts))}{'' if len(counts) == 1 else ' WRONG: not the same model'}", flush=True)
    return len(counts) == 1


def bench(peers=(), only=None):
    print(
        "ratio: tapeout / it. level O2: tapeout compiled so, with parameters and residual in bf16.\n"
        "deterministic off: tapeout compiled so, with cuDNN's attention in both directions.\n"
        "GiB: planned by tapeout, allocated by the others. device: in use on the whole GPU.\n"
        "seconds to the first step: compile + first start; second start. Of the peers from the start of Python.",
        flush=True,
    )
    good = True
    for plan, case in BENCHES.items():
        if only in (None, plan):
            start = time.perf_counter()
            try:
                good &= report(plan, measure_twice(plan, lambda: measure_others(plan, case, peers)))
            except (OSError, ValueError) as error:  # the program ended: it has said why
                print(f"{plan}: {error} WRONG")
                good = False
            print(f"({time.perf_counter() - start:.0f} s)", flush=True)
    return good

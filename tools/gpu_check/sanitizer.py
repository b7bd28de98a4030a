"""gpu-check sanitizer: the four tools of compute-sanitizer over every kind of kernel, and tapeout's own check of its memory.

All values of a step lie in one allocation that is filled before, so memcheck and initcheck see only what leaves it. What a
kernel does beyond its operands is for the emulator's guards (tests/codegen/KernelTester.h), and for --check-memory, which
fills dead memory with NaN: the losses must stay as they are.
"""

import re
import subprocess
import time

from gpu_check.cases import SANITIZED
from gpu_check.machine import data_of, runner, train, write_data

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
LIMIT = 110  # seconds of one run
# racecheck and synccheck do not follow the asynchronous barriers of NVIDIA's own kernels. synccheck can leave kernels out; under
# racecheck those that are left out do not launch: their reports are told apart by name.
OF_LIBRARIES = ",".join(f"kns={name}" for name in ("nvjet", "cudnn", "cublas", "cutlass", "xmma"))


def say(what, plan, start, found, good):
    print(f"{what:14} {plan:14} {time.perf_counter() - start:6.1f} s  {found} {'ok' if good else 'WRONG'}", flush=True)
    return good


def own_races(output):
    """What racecheck found in generated kernels (k7_reduce), as text, and whether that is nothing and the run came to its end."""
    kernels = re.findall(r"access at (\w+)\+0x", output)
    own = sorted({kernel for kernel in kernels if re.match(r"k\d+_", kernel)})
    ended = "Target application returned an error" not in output and "Internal Sanitizer Error" not in output
    found = f"races in {', '.join(own)}" if own else f"no race in generated kernels; {len(kernels)} reports of libraries'"
    return found if ended else f"{found}; the run broke off\n{output[:2000]}\n", ended and not own


def check(tool, plan):
    start = time.perf_counter()
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9"]
    if tool == "synccheck":
        command += ["--kernel-name-exclude", OF_LIBRARIES]
    command += runner(plan, *data_of(plan), "--steps", "2")
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return say(tool, plan, start, f"not done in {LIMIT} s", False)
    summary = re.findall(r"= ([^=\n]*SUMMARY.*)", result.stdout)
    if tool == "racecheck" and summary:
        return say(tool, plan, start, *own_races(result.stdout))
    good = result.returncode == 0 and bool(summary)
    found = summary[-1] if summary else f"exit code {result.returncode}"
    return say(tool, plan, start, found if good else f"{found}\n{result.stdout[:2000]}\n", good)


def losses(plan, *options):
    return [line["loss"] for line in train(plan, data_of(plan), 2, *options)]


def check_memory(plan, expected):
    start = time.perf_counter()
    found = losses(plan, "--check-memory")
    same = found == expected
    return say("--check-memory", plan, start, "the same losses" if same else f"losses {found}, not {expected}", same)


def sanitizer(only=None):
    write_data()
    plans = [plan for plan in SANITIZED if only in (None, plan)]
    # Products are chosen here, without a tool: it would look at all candidates.
    good = [check_memory(plan, losses(plan)) for plan in plans]
    return all(good + [check(tool, plan) for tool in TOOLS for plan in plans])

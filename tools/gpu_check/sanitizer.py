"""gpu-check sanitizer: the four tools of compute-sanitizer over every kind of kernel."""

import re
import subprocess
import time

from gpu_check.cases import SANITIZED
from gpu_check.machine import data_of, runner, write_data

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
LIMIT = 110  # seconds of one run


def check(tool, plan):
    start = time.perf_counter()
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", *runner(plan, *data_of(plan), "--steps", "2")]
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
        summary = re.findall(r"= ([^=\n]*SUMMARY.*)", result.stdout)
        good = result.returncode == 0 and bool(summary)
        said = summary[-1] if summary else f"exit code {result.returncode}"
        if not good:
            said += "\n" + result.stdout[:2000] + "\n"
    except subprocess.TimeoutExpired:
        good, said = False, f"not done in {LIMIT} s"
    print(f"{tool:10} {plan:18} {time.perf_counter() - start:6.1f} s  {said} {'ok' if good else 'WRONG'}", flush=True)
    return good


def sanitizer(only=None):
    write_data()
    plans = [plan for plan in SANITIZED if only in (None, plan)]
    for plan in plans:  # products are chosen without a tool: it would look at all candidates
        subprocess.run(runner(plan, *data_of(plan), "--steps", "1"), check=True, stdout=subprocess.DEVNULL)
    return all([check(tool, plan) for tool in TOOLS for plan in plans])

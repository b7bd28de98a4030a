"""gpu-check kernels: how near generated kernels that move 256 MB and more come to the speed of a copy on the device."""

import re
import subprocess

from gpu_check.machine import HERE

GOALS = {"elementwise": 85, "rows": 85, "columns": 75}  # percent of the copy's bytes per second
LINE = re.compile(r"\s*[\d.]+\s+\d+\s+\d+\s+(\d+)%\s+((\w+): .*)")


def judge(line):
    """The line of a kernel with its goal, and whether it is reached; other lines as they are."""
    match = LINE.fullmatch(line)
    if not match:
        return line, True
    share, goal = int(match[1]), GOALS[match[3]]
    return f"{line:90} goal {goal}% {'ok' if share >= goal else 'MISSED'}", share >= goal


def kernels():
    result = subprocess.run([HERE / "gpu-kernel-times", HERE / "kernels.plan"], check=True, stdout=subprocess.PIPE, text=True)
    judged = [judge(line) for line in result.stdout.splitlines()]
    print("\n".join(line for line, _ in judged))
    return all(good for _, good in judged)

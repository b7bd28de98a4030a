"""gpu-check trace: where each millisecond of a step goes, and whether its graph holds everything."""

import json
import pathlib
import subprocess

from gpu_check.cases import BENCHES
from gpu_check.machine import HERE, runner, write_tokens


def profile(plan):
    """Prints where the steps of a traced run go; returns whether all kernels ran within their graph and the host read nothing."""
    path = HERE / f"{plan}.trace.json"
    command = runner(plan, "--data", HERE / "tokens.bin", "--steps", "60", "--trace", path, "--trace-from", "50")  # warm
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"\n{plan} on Zipf-distributed tokens:")
    for line in pathlib.Path(f"{path}.txt").read_text().splitlines()[:120]:
        print(line[:140])
    graphs = json.loads(path.read_text()).get("graphs")  # none where CUPTI is missing, which the first line says
    return graphs is not None and graphs["outside"] + graphs["host_reads"] == 0


def trace(only=None):
    write_tokens()
    return all([profile(plan) for plan in BENCHES if "mlp" not in plan and only in (None, plan)])

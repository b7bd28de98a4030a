"""gpu-check pack: everything that the other commands need, into one small folder."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import zlib

from gpu_check.cases import BENCHES, CONVERGENCE, CONVERGENCE_BATCH, IN_CHUNKS, PRECISIONS, SANITIZED, SMALL
from gpu_check.cases import level2, nondeterministic

TOOLS = pathlib.Path(__file__).resolve().parent.parent
BUILD = TOOLS.parent / "build" / "bin"
TARGETS = {"cpu": "cpu", "cuda": "cuda:sm_90"}
TEXT = pathlib.Path("/usr/share/dictd/gcide.dict.dz")  # of tools/quickstart; gzip
TEXT_BYTES = 1_000_000


class Packer:
    def __init__(self, folder):
        self.folder, self.compile_seconds = folder, {}
        folder.mkdir(parents=True, exist_ok=True)

    def model(self, name, *options):
        subprocess.run([BUILD / "tapeout", "model", name, *options, "-o", self.folder / "model.tape"], check=True)

    def plan(self, name, *options):
        """Compiles the model that was made last, without the cache of earlier compiles."""
        with tempfile.TemporaryDirectory() as cache:
            start = time.perf_counter()
            subprocess.run(
                [
                    BUILD / "tapeout",
                    "compile",
                    self.folder / "model.tape",
                    "-o",
                    self.folder / f"{name}.plan",
                    "--plan-only",
                    "--clip",
                    "1",
                    *options,
                ],
                check=True,
                env={**os.environ, "XDG_CACHE_HOME": cache},
            )
            self.compile_seconds[name] = time.perf_counter() - start

    def finish(self):
        (self.folder / "model.tape").unlink()
        (self.folder / "compile-seconds.json").write_text(json.dumps(self.compile_seconds))


def copy_programs(folder):
    for program in ("tapeout-runner", "tapeout-gpu-test", "gpu-kernel-times"):
        shutil.copy2(BUILD / program, folder)
        subprocess.run(["strip", folder / program], check=True)
    shutil.copy2(TOOLS / "gpu-check", folder)
    for tools in ("gpu_check", "peers"):
        shutil.copytree(TOOLS / tools, folder / tools, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


def write_text(folder):
    """The start of a dictionary: real English."""
    if not TEXT.exists():
        raise SystemExit(f"{TEXT} is missing, the text that `gpu-check convergence` trains on; tools/setup installs it")
    (folder / "english").write_bytes(zlib.decompressobj(wbits=31).decompress(TEXT.read_bytes(), TEXT_BYTES))


def pack(folder):
    packer = Packer(folder)
    copy_programs(folder)
    write_text(folder)
    for name, (model, options, batch) in SMALL.items():
        packer.model(model, *options)
        common = ["--batch", str(batch), *(["--loss-chunks", "3"] if name in IN_CHUNKS else [])]
        for key, precision in PRECISIONS.items():
            for short, target in TARGETS.items():
                packer.plan(f"{name}-{key}-{short}", "--target", target, *precision.options, *common)
    packer.model("gpt", *(text for size, value in CONVERGENCE.items() for text in (f"--{size}", str(value))))
    for key, precision in PRECISIONS.items():
        common = ["--target", TARGETS["cuda"], *precision.options, "--batch", str(CONVERGENCE_BATCH)]
        scale = ["--loss-scale", "1024"] if precision.name == "fp16" else []
        packer.plan(f"english-{key}", *common)
        packer.plan(f"gradient-{key}", *common, "--optimizer", "sgd", *scale)
    for name, case in BENCHES.items():
        packer.model(case.model, *case.options)
        common = ["--target", TARGETS["cuda"], "--precision", "bf16", "--batch", str(case.batch)]
        packer.plan(name, *common)
        packer.plan(level2(name), *common, "--amp-level", "O2")
        if case.has_attention:
            packer.plan(
                nondeterministic(name), *common, "--deterministic", "off", "--skip-pass", "select-attention-kernels"
            )
    for name, (model, options, batch, precision) in SANITIZED.items():
        packer.model(model, *options)
        packer.plan(name, "--target", TARGETS["cuda"], "--precision", precision, "--batch", str(batch))
    packer.finish()
    subprocess.run(
        [BUILD / "gpu-kernel-speed-plan", folder / "kernels.plan", TARGETS["cuda"]], check=True, stdout=subprocess.DEVNULL
    )
    own = folder / "own-kernels"
    own.mkdir(exist_ok=True)
    for writer in ("gpu-attention-plans", "gpu-product-plans"):
        subprocess.run([BUILD / writer, own, TARGETS["cuda"]], check=True)
    print(f"copy {folder} to the GPU's machine and run {folder.name}/gpu-check there")
    return True

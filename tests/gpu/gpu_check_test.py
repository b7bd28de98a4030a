"""The parts of tools/gpu-check that need no GPU, with plans for the cpu in the place of those for cuda.

python3 tests/gpu/gpu_check_test.py BUILD_BIN
"""

import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from gpu_check import convergence, kernels, machine, numerics
from gpu_check.cases import PRECISIONS
from gpu_check.sample_order import permuted, windows

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
SMALL = "gpt --layers 1 --heads 2 --width 32 --context 16"


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for module in (convergence, machine, numerics):
            module.HERE = self.folder
        (self.folder / "tapeout-runner").symlink_to(BIN / "tapeout-runner")

    def compile(self, plan, model, *options):
        tape = self.folder / "model.tape"
        subprocess.run([BIN / "tapeout", "model", *model.split(), "-o", tape], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(
            [
                BIN / "tapeout",
                "compile",
                tape,
                "-o",
                self.folder / f"{plan}.plan",
                "--plan-only",
                "--target",
                "cpu",
                "--clip",
                "1",
                *options,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def says(self, check):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            return check(), text.getvalue()

    def test_every_window_is_drawn_once_in_an_epoch(self):
        self.assertEqual(sorted(permuted(i, 101, 7, 3) for i in range(101)), list(range(101)))
        starts = windows(1000, 16, seed=1)
        first = sorted(next(starts) for _ in range(62))
        self.assertEqual([b - a for a, b in zip(first, first[1:])], [16] * 61)
        self.assertLess(first[-1] + 16, 1000)

    def test_steps_that_overflow_are_found(self):
        for target in ("cpu", "cuda"):
            self.compile(f"mlp-fp16-{target}", "mlp --hidden 32", "--precision", "fp16")
        good, text = self.says(numerics.check_overflow)
        self.assertTrue(good, text)
        self.compile("mlp-fp16-cuda", "mlp --hidden 32", "--precision", "bf16")  # which does not overflow
        good, text = self.says(numerics.check_overflow)
        self.assertFalse(good)
        self.assertIn("cuda: gradients of the steps [10, 12] are infinite; skipped: [] WRONG", text)

    def test_gradients_of_low_precision_point_where_those_of_fp32_do(self):
        (self.folder / "english").write_bytes(bytes(i * i % 251 for i in range(5000)))
        for key, precision in PRECISIONS.items():
            scale = ["--loss-scale", "1024"] if precision.name == "fp16" else []
            self.compile(f"gradient-{key}", SMALL, "--optimizer", "sgd", *precision.options, *scale)
        good, text = self.says(convergence.compare_gradients)
        self.assertTrue(good, text)
        self.assertRegex(text, "bf16-O2 and fp32: .* ok")
        self.compile("gradient-bf16", SMALL.replace("16", "8"), "--optimizer", "sgd")  # of other samples
        self.assertFalse(self.says(convergence.compare_gradients)[0])

    def test_losses_are_compared_in_every_precision(self):
        (self.folder / "tapeout-gpu-test").symlink_to("/bin/true")
        for target in ("cpu", "cuda"):
            for key, precision in PRECISIONS.items():
                self.compile(f"gpt-{key}-{target}", SMALL, *precision.options)
            self.compile(f"mlp-fp16-{target}", "mlp --hidden 32", "--precision", "fp16")
        with unittest.mock.patch.object(numerics, "SMALL", ("gpt",)):
            good, text = self.says(numerics.numerics)
        self.assertTrue(good, text)
        for key, precision in PRECISIONS.items():
            self.assertRegex(text, f"gpt +{key} +0.00e\\+00 +{precision.bound:.0e} +same bits +ok")

    def test_kernels_have_goals(self):
        command = [BIN / "gpu-kernel-speed-plan", self.folder / "kernels.plan"]
        names = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        self.assertEqual({name.split(":")[0] for name in names}, set(kernels.GOALS))
        for name in names:
            self.assertTrue(kernels.judge(f"   154.4     1      3912    92%  {name}")[1])
            self.assertFalse(kernels.judge(f"   254.4     1      2377    56%  {name}")[1])
        self.assertTrue(kernels.judge("copy: 4249 GB/s")[1])


if __name__ == "__main__":
    unittest.main()

"""Compares the models of tools/peers with those of the goldens, in float64. Run it by hand, with PyTorch:
  python3 tests/golden/check_peers.py
"""

import pathlib
import sys

import torch

import reference

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "peers"))
import torch_models

TEXT = {"layers": 2, "heads": 2, "width": 24, "context": 10, "vocab": 40, "mask_token": 39, "hyperparameters": {"seed": 1}}
ARRAYS = {"inputs": 10, "hidden": [16, 16], "classes": 5, "hyperparameters": {"seed": 1}}
PEERS = {
    "gpt": (TEXT, lambda: torch_models.Gpt(2, 2, 24, 10, 40)),
    "bert": (TEXT, lambda: torch_models.Bert(2, 2, 24, 10, 40)),
    "mlp": (ARRAYS, lambda: torch_models.Perceptron(10, [16, 16], 5)),
}


def main():
    torch.manual_seed(1)
    for name, (settings, make) in PEERS.items():
        start = reference.initial_parameters({**settings, "model": name})
        parameters = {key: torch.tensor(value).double() for key, value in start.items()}
        for value in parameters.values():
            value += 0.05 * torch.randn_like(value)  # biases and norms matter, too
        peer = make().double()
        peer.load_state_dict(parameters)
        data = torch.rand(3, 10).double() if name == "mlp" else torch.randint(40, (3, 10))
        expected = reference.MODELS[name](settings)[1](parameters, data)
        difference = (peer(data) - expected).abs().max().item()
        print(f"{name}: {difference:.1e}")
        assert difference < 1e-13, name


if __name__ == "__main__":
    main()

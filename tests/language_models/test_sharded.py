"""mlx-lm on two ranks of ingot: sharded and pipelined models, and training, against MLX alone."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import mlx.core as oracle
import numpy as np
from tests.cli.process import ingot, python
from tests.language_models.tiny import make_tiny_folder

DRIVER = Path(__file__).with_name("sharded.py")
SENTENCE = "the cat in the hat has a theory of the inner thing"


def _prepare(home: Path) -> tuple[Path, Path]:
    """A model whose class mlx-lm can shard and cut into stages, and data to train it with."""
    folder = make_tiny_folder(home / "tiny")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "qwen2"}))
    file = folder / "model.safetensors"
    weights = oracle.load(str(file))
    random = np.random.default_rng(1)
    with_bias = ("q_proj.weight", "k_proj.weight", "v_proj.weight")
    for name in filter(lambda name: name.endswith(with_bias), list(weights)):
        bias = random.normal(0, 0.1, weights[name].shape[0]).astype(np.float32)
        weights[name.replace("weight", "bias")] = oracle.array(bias)
    oracle.save_safetensors(str(file), weights, {"format": "mlx"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, file.name)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    data = home / "data"
    data.mkdir()
    for name in ("train", "valid"):
        lines = [json.dumps({"text": f"{SENTENCE} {number} " * 3}) for number in range(6)]
        (data / f"{name}.jsonl").write_text("\n".join(lines))
    return folder, data


def test_two_ranks_do_what_MLX_does_alone(tmp_path: Path) -> None:
    folder, data = _prepare(tmp_path)
    settings = {"HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0", "INGOT_VERIFY": "0"}
    tokens, adapters = [], []
    on_two_ranks = partial(ingot, "launch", "-n", "2", "--threads", "1")
    for name, run in (("mlx", python), ("ingot", on_two_ranks)):
        home = tmp_path / name
        home.mkdir()
        done = run(DRIVER, folder, data, home / "adapters", cwd=home, **settings)
        assert done.returncode == 0, done.stdout + done.stderr
        tokens.append(json.loads((home / "tokens.json").read_text()))
        adapters.append(oracle.load(str(home / "adapters" / "adapters.safetensors")))
    alone, ranks = tokens
    assert len(alone["one"]) == 16
    assert ranks == dict.fromkeys(("one", "tensor", "pipeline"), alone["one"])
    whole, shared = adapters
    assert whole.keys() == shared.keys()
    for path, wanted in whole.items():
        np.testing.assert_allclose(
            np.array(shared[path]), np.array(wanted), 1e-3, 1e-5, err_msg=path
        )

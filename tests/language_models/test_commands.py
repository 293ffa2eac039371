"""The commands of mlx-lm on a tiny model, under ingot and under MLX: the same texts and weights."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import mlx.core as oracle
import numpy as np
import pytest
from tests.cli.process import ingot, python
from tests.language_models.tiny import make_tiny_folder

DRIVER = Path(__file__).with_name("commands.py")
SENTENCE = "the cat in the hat has a theory of the inner thing"


def _run(start: Any, home: Path, commands: list[list[Any]], *options: str) -> list[str]:
    """What commands print."""
    done = start(
        *options,
        DRIVER,
        cwd=home,  # where some commands leave files
        stdin=json.dumps([[str(word) for word in command] for command in commands]),
        HOME=str(home),
        HF_HUB_OFFLINE="1",
        PYTHONHASHSEED="0",
        INGOT_VERIFY="0",  # which is for kernels, and there are dozens here
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for command, result in zip(commands, found, strict=True):
        assert result["error"] is None, f"{command}: {result['error']}"
    return [result["printed"] for result in found]


def _prepare(home: Path) -> Path:
    """A model, data to train with, and what quantising commands would fetch to calibrate by."""
    home.mkdir()
    data = home / "data"
    data.mkdir()
    for name in ("train", "valid", "test"):
        lines = [json.dumps({"text": f"{SENTENCE} {number} " * 3}) for number in range(6)]
        (data / f"{name}.jsonl").write_text("\n".join(lines))
    calibration = home / ".cache" / "mlx-lm" / "calibration_v5.txt"
    calibration.parent.mkdir(parents=True)
    calibration.write_text((SENTENCE + ". ") * 60)
    return make_tiny_folder(home / "tiny")


def _commands(home: Path) -> dict[str, list[Any]]:
    model = home / "tiny"
    greedy = ["--max-tokens", 24, "--temp", 0]
    cached = home / "cache.safetensors"
    return {
        "generate": ["generate", "--model", model, "--prompt", SENTENCE, *greedy],
        "convert": ["convert", "--hf-path", model, "--mlx-path", home / "q4", "-q"],
        "convert 8": [
            *["convert", "--hf-path", model, "--mlx-path", home / "q8", "-q", "--q-bits", 8],
            *["--q-group-size", 32],
        ],
        "generate 4": ["generate", "--model", home / "q4", "--prompt", SENTENCE, *greedy],
        "lora": [
            *["lora", "--model", model, "--train", "--data", home / "data", "--iters", 3],
            *["--batch-size", 2, "--num-layers", 2, "--adapter-path", home / "adapters"],
            *["--test", "--test-batches", 1, "--val-batches", 1],
        ],
        "fuse": [
            *["fuse", "--model", model, "--adapter-path", home / "adapters"],
            *["--save-path", home / "fused"],
        ],
        "generate fused": ["generate", "--model", home / "fused", "--prompt", SENTENCE, *greedy],
        "cache_prompt": [
            *["cache_prompt", "--model", model, "--prompt", SENTENCE],
            *["--prompt-cache-file", cached],
        ],
        "generate cached": [
            *["generate", "--model", model, "--prompt", "and a mat", *greedy],
            *["--prompt-cache-file", cached],
        ],
        "perplexity": [
            *["perplexity", "--model", model, "--data-path", home / "data"],
            *["--sequence-length", 32, "--num-samples", 4, "--batch-size", 2],
        ],
        "chat": ["chat", "--model", model, "--max-tokens", 12],
        "benchmark": ["benchmark", "--model", model, "-p", 16, "-g", 8, "-n", 1, "-b", 3],
        "dwq": [
            *["dwq", "--model", model, "--mlx-path", home / "dwq", "--data-path", home / "data"],
            *["--num-samples", 4, "--max-seq-length", 33, "--batch-size", 2],
            *["--learning-rate", 1e-3],
        ],
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What commands printed and wrote, on ingot and on MLX."""
    found = {}
    for name, start, options in (("ingot", ingot, ["run"]), ("mlx", python, [])):
        home = tmp_path_factory.mktemp(name) / "home"
        _prepare(home)
        commands = _commands(home)
        printed = _run(start, home, list(commands.values()), *options)
        found[name] = {"home": home, **dict(zip(commands, printed, strict=True))}
    return found


def _text(printed: str) -> str:
    """The text between the lines that `generate` draws around it."""
    return printed.split("==========")[1]


@pytest.mark.parametrize("command", ["generate", "generate 4", "generate fused", "generate cached"])
def test_the_same_text(command: str, results: dict[str, dict[str, Any]]) -> None:
    texts = [_text(results[name][command]) for name in ("ingot", "mlx")]
    assert texts[0] == texts[1]
    assert len(texts[0]) > 10


def test_the_same_answers(results: dict[str, dict[str, Any]]) -> None:
    answers = []
    for name in ("ingot", "mlx"):
        lines = [line for line in results[name]["chat"].splitlines() if "/tiny" not in line]
        printed = re.sub(r"[\d.]+ (tok/s|GB)", "", "\n".join(lines))
        assert printed.count("12 tokens") == 2
        answers.append(printed)
    assert answers[0] == answers[1]


def test_the_benchmark_counts_all_requests(results: dict[str, dict[str, Any]]) -> None:
    assert "batch_size=3" in results["ingot"]["benchmark"]
    assert re.search(
        r"Averages: prompt_tps=[\d.]+, generation_tps=[\d.]+", results["ingot"]["benchmark"]
    )


@pytest.mark.parametrize("folder", ["q4", "q8"])
def test_the_same_codes(folder: str, results: dict[str, dict[str, Any]]) -> None:
    ours, theirs = (
        oracle.load(str(results[name]["home"] / folder / "model.safetensors"))
        for name in ("ingot", "mlx")
    )
    assert set(ours) == set(theirs)
    for name, expected in theirs.items():
        assert ours[name].dtype == expected.dtype
        assert np.array_equal(np.array(ours[name]), np.array(expected)), name
    configs = [
        json.loads((results[name]["home"] / folder / "config.json").read_text())
        for name in ("ingot", "mlx")
    ]
    assert configs[0] == configs[1]


@pytest.mark.parametrize("folder", ["adapters/adapters", "fused/model"])
def test_the_same_training(folder: str, results: dict[str, dict[str, Any]]) -> None:
    ours, theirs = (
        oracle.load(str(results[name]["home"] / f"{folder}.safetensors"))
        for name in ("ingot", "mlx")
    )
    assert set(ours) == set(theirs)
    for name, expected in theirs.items():
        found = np.array(ours[name].astype(oracle.float32))
        np.testing.assert_allclose(
            found, np.array(expected.astype(oracle.float32)), rtol=1e-4, atol=2e-5
        )


def test_distillation_goes_the_same_way(results: dict[str, dict[str, Any]]) -> None:
    # Adam makes steps of one length of all gradients, also of those that are rounding of bfloat16.
    moves, losses = [], []
    for name in ("ingot", "mlx"):
        before, after = (
            oracle.load(str(results[name]["home"] / folder / "model.safetensors"))
            for folder in ("q4", "dwq")
        )
        scales = sorted(key for key in map(str, before) if key.endswith((".scales", ".biases")))
        moved = [(after[key].astype(oracle.float32) - before[key]).flatten() for key in scales]
        moves.append(np.concatenate([np.array(each) for each in moved]))
        losses.append(re.findall(r"Validation: .*loss=([\d.]+)", results[name]["dwq"]))
    assert np.corrcoef(moves)[0, 1] > 0.8
    assert float(losses[0][0]) == pytest.approx(float(losses[1][0]), abs=2e-3)


def test_the_same_perplexity(results: dict[str, dict[str, Any]]) -> None:
    found = [
        float(re.findall(r"Perplexity:\s*([\d.]+)", results[name]["perplexity"])[0])
        for name in ("ingot", "mlx")
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def test_quantising_with_calibration(tmp_path: Path) -> None:
    home = tmp_path / "home"
    model = _prepare(home)
    sizes = ["--num-samples", 2, "--sequence-length", 32]
    commands: list[list[Any]] = [
        ["awq", "--model", model, "--mlx-path", home / "awq", *sizes, "--n-grid", 2],
        ["gptq", "--model", model, "--mlx-path", home / "gptq", *sizes],
        ["dynamic_quant", "--model", model, "--mlx-path", home / "dynamic"],
    ]
    _run(ingot, home, commands, "run")
    for name in ("awq", "gptq", "dynamic"):
        weights = oracle.load(str(home / name / "model.safetensors"))
        assert any(key.endswith(".scales") for key in weights)
        assert all(np.isfinite(np.array(v.astype(oracle.float32))).all() for v in weights.values())

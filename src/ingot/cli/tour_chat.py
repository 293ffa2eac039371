"""The tour's chapter on a language model, shown if `ingot chat` has downloaded one."""

from __future__ import annotations

import subprocess
import sys

from ingot.cli.chat import is_installed
from ingot.cli.chat_model import find_default_model
from ingot.cli.tour_screen import Screen

__all__ = ["can_talk", "talk"]

QUESTION = "Why is the sky blue?"


def can_talk() -> bool:
    """Whether a model is available without downloading one."""
    return is_installed() and find_default_model() is not None


def talk(screen: Screen, quick: bool) -> None:
    """Asks the model of `ingot chat` a question, in a process in which mlx is ingot."""
    longest = "8" if quick else "100"
    screen.say("mlx-lm runs on ingot unchanged. This is SmolLM2 with 135 million 4-bit weights:")
    screen.blank()
    screen.lines(f'ingot chat --prompt "{QUESTION}"', "bash")
    command = [sys.executable, "-m", "ingot", "chat", "--prompt", QUESTION, "--max-tokens", longest]
    with screen.working("the model answers"):
        done = subprocess.run(command, capture_output=True, text=True)
    said = done.stderr.strip().splitlines() or [""]
    if done.returncode != 0:
        screen.say(f"The model failed: {said[-1]}")
        return
    screen.output(done.stdout.strip())
    screen.blank()
    screen.say(f"Prompt and answer: {said[-1].strip('[]')}.")

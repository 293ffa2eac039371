"""Every public name of MLX's core in names.txt exists in ingot.core, and has a case or a reason."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from types import ModuleType

import pytest

from .table import CASES

LATER = "comes with a later part of ingot"
NOT_YET = """
    convolve conv1d conv2d conv3d conv_general conv_transpose1d conv_transpose2d conv_transpose3d
    quantize dequantize quantized_matmul qqmm gather_qmm gather_qqmm to_fp8 from_fp8 gather_mm
    block_masked_mm segmented_mm hadamard_transform FunctionExporter
    save savez savez_compressed save_gguf save_safetensors load
""".split()
# Names of which no case is expected here, with the reason.
WITHOUT_CASES: dict[str, str] = {
    **dict.fromkeys(NOT_YET, LATER),
    "ArrayAt": "what array.at returns, tested there",
    "ArrayLike": "a type for annotations",
    "DeviceType": "devices are tested with the runtime",
    "is_available": "devices are tested with the runtime",
    "StreamContext": "streams are tested with the runtime",
}


def names() -> list[str]:
    """The public names, without the module."""
    lines = Path(__file__).with_name("names.txt").read_text().splitlines()
    return sorted({line for line in lines if line and not line.startswith("#")})


@pytest.mark.parametrize("name", [name for name in names() if WITHOUT_CASES.get(name) != LATER])
def test_name_exists(name: str, ours: ModuleType) -> None:
    """The name is there, at the same place."""
    reduce(getattr, name.split("."), ours)


def test_every_name_has_a_case() -> None:
    """Each name has cases, or a reason why not; not both."""
    public = set(names())
    assert sorted(public - set(CASES) - set(WITHOUT_CASES)) == []
    assert sorted(set(WITHOUT_CASES) & set(CASES)) == []
    assert sorted(set(WITHOUT_CASES) - public) == []


def test_names_are_mlx_names(theirs: ModuleType) -> None:
    """The list has no name that MLX does not have."""
    for name in names():
        reduce(getattr, name.split("."), theirs)

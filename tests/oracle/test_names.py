"""Every public name of MLX exists in ingot, and each of its core has a case or a reason.

`names.txt` has those of `mlx.core` that the cases are about, `public_names.txt` all of MLX.
"""

from __future__ import annotations

import importlib
from functools import reduce
from pathlib import Path
from types import ModuleType

import pytest
from tests.oracle.cases.table import CASES

TESTED_ELSEWHERE = {
    "tests/ops/products/test_convolution.py": """
        convolve conv1d conv2d conv3d conv_general conv_transpose1d conv_transpose2d
        conv_transpose3d
    """,
    "tests/ops/quantized/test_quantization.py": """
        quantize dequantize quantized_matmul qqmm gather_qmm gather_qqmm to_fp8 from_fp8
    """,
    "tests/ops/products/test_chosen_products.py": """
        gather_mm block_masked_mm segmented_mm hadamard_transform
    """,
    "tests/runtime/files/test_load_save.py": """
        save savez savez_compressed save_gguf save_safetensors load
    """,
}
# Names of which no case is expected here, with the reason.
WITHOUT_CASES: dict[str, str] = {
    **{name: place for place, names in TESTED_ELSEWHERE.items() for name in names.split()},
    "ArrayAt": "what array.at returns, tested there",
    "ArrayIterator": "what iter returns for arrays, tested there",
    "ArrayLike": "a type for annotations",
    "DeviceType": "devices are tested with the runtime",
    "is_available": "devices are tested with the runtime",
    "StreamContext": "streams are tested with the runtime",
    "FunctionExporter": "what exporter returns, tested in tests/export",
}
# Names that ingot does not have, with the reason.
LEFT_OUT: dict[str, str] = {}
MODULES = """
    mlx.core mlx.core.cuda mlx.core.distributed mlx.core.fast mlx.core.fft mlx.core.linalg
    mlx.core.metal mlx.core.random mlx.nn mlx.nn.init mlx.nn.losses mlx.optimizers mlx.utils
""".split()


def listed(file: str) -> list[str]:
    """The names in a file, without comments."""
    lines = Path(__file__).with_name(file).read_text().splitlines()
    return sorted({line for line in lines if line and not line.startswith("#")})


def names() -> list[str]:
    """The public names of MLX's core, without the module."""
    return listed("names.txt")


def found(package: str, name: str) -> object:
    """What a name such as mlx.core.fft.fft stands for in a package that is shaped like MLX."""
    _, module, *rest = name.split(".")
    return reduce(getattr, rest, importlib.import_module(f"{package}.{module}"))


@pytest.mark.parametrize("name", listed("public_names.txt"))
def test_name_exists(name: str) -> None:
    """The name is there, at the same place; or else it is left out for a reason."""
    if name in LEFT_OUT:
        with pytest.raises(AttributeError):
            found("ingot", name)
    else:
        assert found("ingot", name) is not None or name == "mlx.core.newaxis"


@pytest.mark.parametrize("module", MODULES)
def test_no_name_of_the_installed_mlx_is_missing(module: str) -> None:
    """The lists of names are of one version; this finds what the installed one adds."""
    there = found("mlx", module)
    public = {
        name
        for name, value in vars(there).items()
        # What a module imported for itself is not part of it.
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and getattr(value, "__module__", module).startswith(".".join(module.split(".")[:2]))
    }
    missing = {name for name in public if not hasattr(found("ingot", module), name)}
    assert {f"{module}.{name}" for name in missing} <= LEFT_OUT.keys()


def test_every_name_has_a_case() -> None:
    """Each name has cases, or a reason why not; not both."""
    public = set(names())
    assert sorted(public - set(CASES) - set(WITHOUT_CASES)) == []
    assert sorted(set(WITHOUT_CASES) & set(CASES)) == []
    assert sorted(set(WITHOUT_CASES) - public) == []


def test_referenced_test_files_exist() -> None:
    """What is said to be tested elsewhere is named there."""
    root = Path(__file__).parents[2]
    for place, tested in TESTED_ELSEWHERE.items():
        text = (root / place).read_text()
        assert [name for name in tested.split() if name not in text] == []


def test_names_are_mlx_names(theirs: ModuleType) -> None:
    """The list has no name that MLX does not have."""
    for name in names():
        reduce(getattr, name.split("."), theirs)

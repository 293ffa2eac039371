"""Convolution layers against the real ones."""

from __future__ import annotations

import pytest
from tests.nn.both import INGOT, MLX, Case, assert_same, run_layer

import ingot.nn as nn

CASES = [
    Case("conv1d", lambda nn: nn.Conv1d(3, 4, 3), [(2, 8, 3)]),
    Case("conv1d_options", lambda nn: nn.Conv1d(4, 6, 3, 2, 1, 2, 2, bias=False), [(2, 9, 4)]),
    Case("conv2d", lambda nn: nn.Conv2d(3, 4, 3), [(2, 6, 7, 3)]),
    Case("conv2d_options", lambda nn: nn.Conv2d(4, 6, (3, 2), 2, (1, 0), 2, 2), [(2, 9, 8, 4)]),
    Case("conv3d", lambda nn: nn.Conv3d(3, 4, 2), [(2, 4, 5, 4, 3)]),
    Case("conv3d_options", lambda nn: nn.Conv3d(3, 4, 2, (1, 2, 1), 1), [(2, 4, 5, 4, 3)]),
    Case("transpose1d", lambda nn: nn.ConvTranspose1d(3, 4, 3), [(2, 8, 3)]),
    Case("transpose1d_options", lambda nn: nn.ConvTranspose1d(3, 4, 3, 2, 1, 1, 1), [(2, 8, 3)]),
    Case("transpose2d", lambda nn: nn.ConvTranspose2d(3, 4, 3), [(2, 4, 5, 3)]),
    Case(
        "transpose2d_options",
        lambda nn: nn.ConvTranspose2d(3, 4, (3, 2), 2, 1, 1, (1, 0), bias=False),
        [(2, 4, 5, 3)],
    ),
    Case("transpose3d", lambda nn: nn.ConvTranspose3d(2, 3, 2), [(2, 3, 4, 3, 2)]),
    Case("transpose3d_options", lambda nn: nn.ConvTranspose3d(2, 3, 2, 2), [(2, 3, 4, 3, 2)]),
]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_parameters_and_text_equal_mlx(case: Case) -> None:
    models = []
    for library in (INGOT, MLX):
        library.mx.random.seed(17)
        models.append(case.make(library.nn))
    ours, theirs = models
    assert repr(ours) == repr(theirs)
    assert {key: ours[key].shape for key in ours.parameters()} == {
        key: theirs[key].shape for key in theirs.parameters()
    }
    assert ours.weight.tolist() == theirs.weight.tolist()


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_layer_equals_mlx(case: Case) -> None:
    arrays = case.arrays()
    ours, theirs = (run_layer(library, case, arrays) for library in (INGOT, MLX))
    assert_same(ours["outputs"], theirs["outputs"], 1e-4, 1e-5)
    assert_same(ours["gradients"], theirs["gradients"], 1e-4, 1e-4)


def test_channels_must_divide_into_groups() -> None:
    with pytest.raises(ValueError, match=r"\[Conv2d\] .* got 3 channels and 2 groups"):
        nn.Conv2d(3, 4, 3, groups=2)

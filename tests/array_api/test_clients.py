"""Libraries that dispatch on the standard: scikit-learn's estimators and SciPy's functions."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import numpy as np
import sklearn
from scipy import signal, special, stats
from scipy.cluster import vq
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import ingot.array_api as xp

x = np.random.default_rng(0).standard_normal((60, 5))
y = x @ np.arange(5.0) + 1
given = xp.asarray(x), xp.asarray(y)


def same(found, expected):
    assert isinstance(found, xp.Array), type(found)
    assert found.dtype is xp.float64
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, atol=1e-6)


ESTIMATORS = {
    "scaler": lambda x, y: StandardScaler().fit(x).transform(x),
    "range": lambda x, y: MinMaxScaler().fit_transform(x),
    "largest": lambda x, y: MaxAbsScaler().fit_transform(x),
    "ridge": lambda x, y: Ridge(solver="svd").fit(x, y).coef_,
    "prediction": lambda x, y: Ridge(solver="svd").fit(x, y).predict(x),
    "components": lambda x, y: PCA(2, svd_solver="full").fit_transform(x),
    "inverse": lambda x, y: PCA(2, svd_solver="full").fit(x).inverse_transform(
        PCA(2, svd_solver="full").fit_transform(x)
    ),
}
for name, estimate in ESTIMATORS.items():
    expected = estimate(x, y)
    with sklearn.config_context(array_api_dispatch=True):
        same(estimate(*given), expected)
FUNCTIONS = {
    "logsumexp": lambda x: special.logsumexp(x, axis=1),
    "xlogy": lambda x: special.xlogy(x * x, x * x),
    "erf": special.erf,
    "zscore": lambda x: stats.zscore(x, axis=0),
    "skew": lambda x: stats.skew(x, axis=0),
    "kurtosis": lambda x: stats.kurtosis(x, axis=0),
    "whiten": vq.whiten,
    "detrend": lambda x: signal.detrend(x, axis=0),
}
for name, function in FUNCTIONS.items():
    same(function(given[0]), function(x))
print("done")
"""


def test_scikit_learn_and_scipy() -> None:
    """In a process of its own: SciPy reads its setting when it is imported."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env={"SCIPY_ARRAY_API": "1", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr[-3000:]

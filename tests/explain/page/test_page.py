"""The page of an explanation: what is in it, and that it needs nothing else."""

from __future__ import annotations

import base64
import html
import io
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

import ingot.core as mx
from ingot.explain.report import Explanation

WEIGHT = mx.ones((8, 8))


def function(x: Any, k: float) -> Any:
    y = mx.exp(x * 2.0) + mx.stop_gradient(x)
    return mx.sort(y @ WEIGHT + k)


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    compiled = mx.compile(function)
    mx.eval(compiled(mx.ones((4, 8)), 1.0))
    mx.eval(compiled(mx.ones((5, 8)), 1.0))
    return compiled.explain(mx.ones((4, 8)), 1.0)


def parts(page: str) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The data of a page and the texts of its kernels."""
    packed = re.findall(r'<script type="application/octet-stream" id="\w+">(.*?)</script>', page)
    data, texts = (json.loads(zlib.decompress(base64.b64decode(each))) for each in packed)
    return data, texts


def test_the_page_needs_nothing_else(explanation: Explanation) -> None:
    page = explanation.to_html()
    assert page.startswith("<!doctype html>")
    assert re.findall(r"@[A-Z]+@", page) == []
    assert re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(?!data:)", page) == []
    assert re.findall(r"https?://(?!www\.w3\.org)", page) == []
    assert "default-src 'none'" in page


def test_stages_have_all_steps_with_their_lines(explanation: Explanation) -> None:
    data, _ = parts(explanation.to_html())
    trace, simplified, fused = data["stages"]
    ops = [type(step.op).__name__ for step in explanation.stages.traced.steps if step.op]
    drawn = [node["title"] for node in trace["nodes"] if node["kind"] not in ("input", "constant")]
    assert sorted(drawn) == sorted(op for op in ops if op != "Broadcast")
    (gone,) = [node for node in trace["nodes"] if node["title"] == "StopGradient"]
    assert gone["fate"] == "dropped: it changes nothing"
    (exp,) = [node for node in simplified["nodes"] if node["title"] == "Exp"]
    first = function.__code__.co_firstlineno
    assert exp["source"]["place"] == f"test_page.py:{first + 1}"
    assert exp["source"]["text"] == "y = mx.exp(x * 2.0) + mx.stop_gradient(x)"
    assert exp["type"] == "float32[4, 8]"
    kinds = [node["kind"] for node in fused["nodes"] if node.get("card")]
    assert kinds == ["kernel", "BLAS", "kernel", "host"]
    titles = {node["title"] for node in fused["nodes"]}
    assert {"x", "of 64 elements", "kernel 0", "BLAS 1", "kernel 2", "host 3"} == titles
    for stage in data["stages"]:
        count = len(stage["nodes"])
        assert all(
            0 <= end < count for first, second, _ in stage["edges"] for end in (first, second)
        )


def test_kernels_have_their_texts(explanation: Explanation) -> None:
    data, texts = parts(explanation.to_html())
    assert [work["kind"] for work in data["work"]] == ["kernel", "BLAS", "kernel", "host"]
    assert texts[1] == texts[3] == {}
    for number in (0, 2):
        assert texts[number]["loops"].startswith("kernel(%")
        assert "define void @KERNEL" in texts[number]["llvm"]
        assert "KERNEL:" in texts[number]["assembly"]
    assert all(work["seconds"] > 0 for work in data["work"])
    assert data["work"][3]["reason"] == "its elements depend on many others"
    lines = [line for snippet in data["work"][0]["snippets"] for line in snippet["lines"]]
    assert [text for _, text, meant in lines if meant] == [
        "    y = mx.exp(x * 2.0) + mx.stop_gradient(x)"
    ]


def test_the_cache_is_shown(explanation: Explanation) -> None:
    data, _ = parts(explanation.to_html())
    reasons = [miss["reason"] for miss in data["cache"]["reasons"]]
    assert reasons == ["the first call", "argument `x`, axis 0: 4 → 5"]
    assert len(data["cache"]["entries"]) == 2


def test_text_of_the_user_stays_text() -> None:
    report = mx.compile(lambda x: x + 1).explain(mx.ones(2))
    report.name = "</script><script>alert(1)</script>"
    page = report.to_html()
    assert "<script>alert" not in page
    assert parts(page)[0]["name"] == report.name


def test_files_and_notebooks(explanation: Explanation, tmp_path: Path) -> None:
    page = explanation.to_html()
    assert explanation.to_html(tmp_path / "page.html") is None  # a session would print it
    assert (tmp_path / "page.html").read_text() == page
    stream = io.StringIO()
    assert explanation.to_html(stream) is None
    assert stream.getvalue() == page
    frame = explanation._repr_html_()
    found = re.fullmatch(r'<iframe srcdoc="([^"]*)" style="[^"]*"></iframe>', frame, re.S)
    assert found is not None
    assert html.unescape(found[1]) == page


def test_functions_that_compute_nothing() -> None:
    data, texts = parts(mx.compile(lambda x: x).explain(mx.ones(2)).to_html())
    assert data["work"] == texts == []
    assert [len(stage["nodes"]) for stage in data["stages"]] == [1, 1, 1]

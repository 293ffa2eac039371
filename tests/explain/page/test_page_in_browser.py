"""The page of an explanation in a real browser: it renders, its boxes can be clicked, it is quick.

`make test` installs Debian's chromium where it may (build_support/browser.sh); without a browser
these tests are skipped, and say why.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

import ingot
import ingot.core as mx
import ingot.nn as nn

playwright_api = pytest.importorskip("playwright.sync_api")

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
WHY_NOT = Path(__file__).parents[3] / "build" / "browser.txt"
WEIGHT = mx.ones((16, 16)) * 0.1


def attention(x: Any) -> Any:
    scores = (x @ WEIGHT) @ x.T
    weights = mx.softmax(scores * 0.25, axis=-1)
    return mx.sort(weights @ x)


def deep(x: Any) -> Any:
    for _ in range(210):
        y = mx.tanh(x @ WEIGHT)
        x = x + (y - mx.mean(y, axis=-1, keepdims=True)) * 0.5
    return x


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    names = (os.environ.get("INGOT_BROWSER"), "chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    if path is None:
        reason = WHY_NOT.read_text().strip() if WHY_NOT.exists() else "chromium is not installed"
        pytest.skip(f"no browser: {reason}")
    with playwright_api.sync_playwright() as playwright:
        # a new, empty profile each time: launch makes one
        started = playwright.chromium.launch(executable_path=path, args=FLAGS, headless=True)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Any]:
    """Opens a file; afterwards nothing may have been complained about or asked for."""
    complaints: list[str] = []
    page = browser.new_page(viewport={"width": 1300, "height": 800})
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url))

    def opened(path: Path) -> Any:
        page.goto(path.as_uri())
        if "iframe" not in page.content():
            page.wait_for_selector("body[data-ready]")
        assert complaints == [path.as_uri()]
        complaints.clear()
        return page

    yield opened
    page.close()
    assert complaints == []


def click_box(page: Any, title: str) -> None:
    """Clicks a box of the graph with the mouse."""
    place = page.evaluate(
        """title => {
            const index = graph.stage.nodes.findIndex((node) => node.title === title);
            graph.centre(index, 1);
            graph.paint();
            return graph.onScreen(index);
        }""",
        title,
    )
    page.mouse.click(place["x"], place["y"])


@pytest.fixture(scope="module")
def small_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "small.html"
    compiled = mx.compile(attention)
    mx.eval(compiled(mx.ones((32, 16))))
    compiled.explain(mx.ones((32, 16))).to_html(path)
    return path


def test_boxes_can_be_clicked(open_page: Any, small_page: Path) -> None:
    page = open_page(small_page)
    assert page.title() == "attention · ingot explain"
    assert page.locator("#stages button").all_inner_texts() != []
    page.get_by_role("tab", name="Simplify").click()
    click_box(page, "Exp")
    details = page.locator("#details")
    assert details.locator("h2").inner_text() == "Exp"
    text = details.inner_text()
    line = attention.__code__.co_firstlineno + 2
    assert f"test_page_in_browser.py:{line} in attention" in text
    assert "float32[32, 32]" in text
    assert "weights = mx.softmax(scores * 0.25, axis=-1)" in text
    # what it is made of can be clicked too, and the kernel that it runs in
    details.get_by_role("button", name="%10 Subtract").click()
    assert details.locator("h2").inner_text() == "Subtract"
    details.get_by_role("button", name="kernel 2").click()
    assert "kernel 2" in details.locator("h2").inner_text()
    selected = page.get_by_role("tab", name="Fuse").get_attribute("aria-selected")
    assert selected == "true"
    assert page.locator("tr.row[aria-selected=true]").get_attribute("data-work") == "2"


def test_kernels_show_their_code(open_page: Any, small_page: Path) -> None:
    page = open_page(small_page)
    click_box(page, "kernel 2")
    code = page.locator("#code")
    assert "weights = mx.softmax" in code.inner_text()
    for tab, word in (
        ("Loops", "parallel i in "),
        ("LLVM", "define void @KERNEL"),
        ("Assembly", "ret"),
    ):
        page.get_by_role("tab", name=tab).click()
        page.wait_for_function(
            "word => document.querySelector('#code').innerText.includes(word)", arg=word
        )
    page.locator("tr.row").last.click()
    assert "its elements depend on many others" in page.locator("#details").inner_text()


def test_memory_cache_and_texts(open_page: Any, small_page: Path) -> None:
    page = open_page(small_page)
    page.get_by_role("tab", name="Memory").click()
    assert "peak, besides the arguments" in page.locator("#view").inner_text()
    page.get_by_role("tab", name="Cache").click()
    assert "the first call" in page.locator("#view").inner_text()
    page.get_by_role("tab", name="Text").click()
    page.get_by_text("Simplified:").click()
    assert "Exp(" in page.locator("#view pre").inner_text()
    page.fill("#search", "exp")
    page.get_by_role("tab", name="Trace").click()
    page.fill("#search", "exp")
    page.press("#search", "Enter")
    assert page.locator("#details h2").inner_text() == "Exp"
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_a_graph_of_two_thousand_nodes(open_page: Any, tmp_path: Path) -> None:
    report = mx.compile(deep).explain(mx.ones((16, 16)))
    assert len(report.stages.traced.steps) > 2000
    report.to_html(tmp_path / "large.html")
    page = open_page(tmp_path / "large.html")
    page.get_by_role("tab", name="Trace").click()
    click_box(page, "Tanh")
    assert page.locator("#details h2").inner_text() == "Tanh"
    # only what is in sight is drawn; all of it only on request
    assert 0 < page.evaluate("graph.drawn") < 100
    page.click("#fit")
    page.wait_for_function("() => graph.drawn === graph.stage.nodes.length")
    page.mouse.move(300, 400)
    page.mouse.wheel(0, -600)
    page.mouse.down()
    page.mouse.move(380, 460, steps=4)
    page.mouse.up()
    page.wait_for_function("() => graph.drawn < graph.stage.nodes.length")


def test_a_notebook_shows_it_in_a_frame(open_page: Any, small_page: Path, tmp_path: Path) -> None:
    frame = mx.compile(attention).explain(mx.ones((32, 16)))._repr_html_()
    (tmp_path / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8>{frame}")
    page = open_page(tmp_path / "notebook.html")
    inside = page.frame_locator("iframe")
    inside.locator("body[data-ready]").wait_for()
    assert inside.locator("#name").inner_text() == "attention"
    inside.locator("tr.row").first.click()
    assert "BLAS 0" in inside.locator("#details h2").inner_text()


def _rows(page: Any) -> list[int]:
    return [int(row.get_attribute("data-work")) for row in page.locator("tr.row").all()]


def test_it_opens_on_the_hottest_step(open_page: Any, small_page: Path) -> None:
    page = open_page(small_page)
    seconds = page.evaluate("data.work.map((work) => work.seconds)")
    hottest = max(range(len(seconds)), key=seconds.__getitem__)
    chosen = page.locator("tr.row[aria-selected=true]")
    assert int(chosen.get_attribute("data-work")) == hottest
    assert str(hottest) in page.locator("#details h2 .kind").inner_text()
    assert page.evaluate("graph.stage.nodes[graph.selected].work").count(hottest) == 1
    # Its title can be read, and the shares on the cards add up.
    assert page.evaluate("graph.view.zoom >= READABLE && graph.drawn > 0")
    shares = page.evaluate("graph.stage.nodes.map((node) => node.share || 0)")
    assert abs(sum(shares) - 1) < 1e-6


def test_hotter_cards_are_darker_also_when_selected(open_page: Any, small_page: Path) -> None:
    page = open_page(small_page)
    fills = """cards => {
      const { view, ratio, canvas } = graph;
      const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      return cards.map((index) => {
        const [x, y, width, height] = graph.stage.nodes[index].box;
        const left = Math.round((x + width - 5 - view.x) * view.zoom * ratio);
        const top = Math.round((y + height / 2 - view.y) * view.zoom * ratio);
        const start = 4 * (top * canvas.width + left);
        return pixels[start] + pixels[start + 1] + pixels[start + 2];
      });
    }"""
    page.evaluate("graph.stage.nodes.forEach((node) => { if (node.card) node.share = 0.02; })")
    cards = page.evaluate("graph.stage.nodes.flatMap((node, at) => (node.card ? [at] : []))")
    assert len(cards) >= 2
    page.evaluate(
        "index => { graph.stage.nodes[index].share = 0.9; graph.select(index); }", cards[0]
    )
    page.evaluate("graph.fit()")
    page.wait_for_timeout(300)  # drawn in the next frame
    hot, cool = page.evaluate(fills, cards[:2])
    assert hot < cool - 100
    note, minimap = (page.locator(name).bounding_box() for name in ("#note", "#map"))
    assert minimap is None or note["x"] + note["width"] <= minimap["x"]


def test_steps_are_sorted_by_column(open_page: Any, small_page: Path) -> None:
    page = open_page(small_page)
    works = page.evaluate("data.work")
    order = list(range(len(works)))
    assert _rows(page) == order
    page.get_by_role("button", name="time", exact=True).click()
    assert _rows(page) == sorted(order, key=lambda index: -works[index]["seconds"])
    page.get_by_role("button", name="data", exact=True).click()
    assert _rows(page) == sorted(order, key=lambda index: -works[index]["bytes"])
    page.get_by_role("button", name="order", exact=True).click()
    assert _rows(page) == order
    speeds = page.locator("td.speed").all_inner_texts()
    assert all("%" in text or "in cache" in text for text in speeds)


def test_what_is_kept_has_no_speed(open_page: Any, tmp_path: Path) -> None:
    """Bytes that a call does not move, divided by the time of a lookup, are no bandwidth."""
    weight = mx.random.normal((256, 256))
    compiled = mx.compile(lambda x: mx.tanh(x @ weight.T))
    x = mx.random.normal((128, 256))
    mx.eval(compiled(x))
    path = tmp_path / "kept.html"
    compiled.explain(x).to_html(path)
    page = open_page(path)
    kept = page.evaluate("data.work.map((work) => work.kept)")
    assert sorted(kept) == [False, True]
    speeds = page.locator("td.speed").all_inner_texts()
    assert speeds[kept.index(True)].strip() == "kept"
    assert "flop/s" in speeds[kept.index(False)]
    page.locator("tr.row").nth(kept.index(True)).click()
    facts = page.locator("#details").inner_text()
    assert "kept from an earlier call with the same array" in facts
    assert "speed" not in facts


def test_the_hot_loop_comes_first(open_page: Any, small_page: Path) -> None:
    page = open_page(small_page)
    click_box(page, "kernel 2")
    page.get_by_role("tab", name="Assembly").click()
    page.wait_for_selector("#code pre + h3")
    assert page.locator("#code h3").all_inner_texts() == ["The hot loop", "All of it"]
    hot, all_of_it = page.locator("#code pre").all_inner_texts()
    assert hot.strip() in all_of_it


def test_a_narrow_screen_shows_everything(open_page: Any, small_page: Path) -> None:
    page = open_page(small_page)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for name in ("#facts", "#stages", "#search", "#fit", "#canvas", "#views", "#details", "#theme"):
        box = page.locator(name).bounding_box()
        assert box["x"] >= 0, name
        assert box["x"] + box["width"] <= 390, name
    for row in page.locator("tr.row").all():
        assert row.bounding_box()["width"] <= 390
    page.get_by_role("tab", name="Memory").click()
    page.get_by_role("tab", name="Cache").click()
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.fixture(scope="module")
def deep_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "layers.html"
    model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.GELU())))
    gradient = mx.grad(lambda x: mx.sum(model(x)))
    compiled = mx.compile(lambda x: mx.argmax(gradient(x), axis=-1))  # has all stages
    compiled.explain(mx.ones((32, 64))).to_html(path)
    return path


@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)])
def test_a_screenshot_shows_the_hottest_step(
    browser: Any, deep_page: Path, width: int, height: int
) -> None:
    """The pixels of the screen, on opening: no empty boxes, and the card of that step in view."""
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(deep_page.as_uri())
    page.wait_for_selector("body[data-ready]")
    screen = imread(BytesIO(page.screenshot()))[..., :3]
    assert screen.shape == (height, width, 3)
    frame = page.locator("#canvas").bounding_box()
    place = page.evaluate("graph.onScreen(graph.selected)")
    assert frame["x"] < place["x"] < frame["x"] + frame["width"]
    assert frame["y"] < place["y"] < frame["y"] + frame["height"]
    # All of the card is above the note, and the page is at its top, as wide as the screen.
    below = page.evaluate("graph.stage.nodes[graph.selected].box[3] * graph.view.zoom / 2")
    assert place["y"] + below <= page.locator("#note").bounding_box()["y"]
    assert page.evaluate("[scrollY, document.documentElement.scrollWidth]") == [0, width]
    assert page.locator("#stages button").count() == 4
    row = page.locator("tr[aria-selected=true]").bounding_box()
    view = page.locator("#view").bounding_box()
    assert view["y"] <= row["y"]
    assert row["y"] + row["height"] <= view["y"] + view["height"] + 1
    if width == 390:  # one scrolls the page, not the details
        page.get_by_role("tab", name="Loops").click()
        hidden = "details => details.scrollHeight - details.clientHeight"
        assert page.locator("#details").evaluate(hidden) == 0
    x, y = round(place["x"]), round(place["y"])
    # A card with text: its pixels are dark and light, on a tint that grows with its share.
    card = screen[y - 12 : y + 12, max(x - 40, 0) : x + 40].mean(-1)
    assert card.min() < 0.45
    assert card.max() > 0.7
    # The panels have text in every quarter of the screen's height.
    for top in range(0, height, height // 4):
        assert screen[top : top + height // 4].min() < 0.45
    page.close()


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A profile, and its page."""
    compiled = mx.compile(attention)
    mx.eval(compiled(mx.ones((32, 16))))  # beside compiling, what runs is too little to be drawn
    with ingot.profile() as profile:
        for _ in range(3):
            mx.eval(compiled(mx.ones((32, 16))))
    path = tmp_path_factory.mktemp("page") / "profile.html"
    profile.to_html(path)
    return profile, path


def test_the_page_of_a_profile(open_page: Any, profiled: tuple[Any, Path]) -> None:
    profile, path = profiled
    page = open_page(path)
    rows = profile.rows
    shown = page.locator("tr.row").all()
    assert len(shown) == len(rows)
    assert [int(row.get_attribute("data-row")) for row in shown] == list(range(len(rows)))
    page.get_by_role("button", name="calls", exact=True).click()
    calls = [row.calls for row in rows]
    sorted_rows = [int(row.get_attribute("data-row")) for row in page.locator("tr.row").all()]
    assert [calls[row] for row in sorted_rows] == sorted(calls, reverse=True)
    # The longest run of the time line selects its row; the flame names the function and the line.
    place = page.evaluate(
        """() => {
            const span = data.spans.reduce((a, b) => (b[2] > a[2] ? b : a));
            const frame = element("spans").getBoundingClientRect();
            const across = (span[1] + span[2] / 2) / data.seconds;
            const down = GAP + span[3] * (LANE + GAP) + 4;
            return [frame.left + across * frame.width, frame.top + down];
        }"""
    )
    page.mouse.click(*place)
    assert page.locator("tr.row[aria-selected=true]").count() == 1
    blocks = page.locator("#flame button").all_inner_texts()
    assert any("attention" in text for text in blocks)
    assert any("line " in text for text in blocks)
    assert page.locator("#flame").bounding_box()["height"] > 60
    whole = page.locator("#flame .block").first.bounding_box()["width"]
    below = page.evaluate("""() => [...document.querySelectorAll("#flame > .flame > .below > *")]
        .reduce((sum, each) => sum + each.getBoundingClientRect().width, 0)""")
    assert abs(whole - below) < 2
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_narrow_screen_shows_the_whole_profile(
    open_page: Any, profiled: tuple[Any, Path]
) -> None:
    """Every number of every row, and all that a wheel or a mouse that hovers would reach."""
    profile, path = profiled
    page = open_page(path)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    cells = page.locator("#table th, #table td").all()
    assert len(cells) == 5 * (1 + len(profile.rows))
    for cell in cells:
        box = cell.bounding_box()
        assert box["width"] > 0
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth + 1")
    measured = [row for row in profile.rows if row.bytes or row.flops]
    speeds = page.locator("td.speed").all_inner_texts()
    assert sum("/s" in text for text in speeds) == len(measured) > 0
    page.get_by_role("button", name="speed", exact=True).click()
    assert page.locator("th[aria-sort]").inner_text() == "speed"
    # The time line is zoomed by buttons and by keys, and moved by keys.
    length = "() => (state.end - state.begin) / data.seconds"
    page.get_by_role("button", name="Zoom in").click()
    assert abs(page.evaluate(length) - 0.5) < 1e-9
    page.locator("#spans").press("ArrowRight")
    assert abs(page.evaluate("state.begin / data.seconds") - 0.3) < 1e-9
    page.get_by_role("button", name="Zoom out").click()
    assert abs(page.evaluate(length) - 1) < 1e-9
    # Names that are cut off are read by choosing what they name.
    page.locator("#flame .block").first.click()
    assert page.locator("#meant").inner_text().startswith("all: ")
    row = page.locator("tr.row").last
    row.press("Enter")
    assert page.locator("tr.row").last.get_attribute("aria-selected") == "true"

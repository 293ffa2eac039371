"""The documentation: its examples do what they say, and its pages work from disk."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from playwright import sync_api as playwright_api

import ingot

PROJECT = Path(__file__).resolve().parent.parent
DOCUMENTS = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
VARIABLE = re.compile(r"INGOT_[A-Z_]+[A-Z]")
PROMISE = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)


def _run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # The theme would print an advertisement for the tool that is to follow mkdocs.
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )


def _with_examples() -> list[Path]:
    return [document for document in DOCUMENTS if EXAMPLE.search(document.read_text())]


def test_there_are_documents_with_examples() -> None:
    names = {document.name for document in _with_examples()}
    assert {"README.md", "mlx_users.md", "quick_start.md", "compilation.md", "lora.md"} <= names


@pytest.mark.parametrize("document", _with_examples(), ids=lambda document: document.name)
def test_examples_print_what_they_say(document: Path, tmp_path: Path) -> None:
    """The examples of a page are one program; those of the README are independent."""
    examples = EXAMPLE.findall(document.read_text())
    programs = examples if document.name == "README.md" else ["\n".join(examples)]
    for program in programs:
        done = _run(sys.executable, "-W", "error", "-c", program, cwd=tmp_path)
        assert done.returncode == 0, f"{program}\n{done.stdout}"
        assert done.stdout.splitlines() == PROMISE.findall(program)


class Page(HTMLParser):
    """The links of a page, what it loads, and what can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = {""}
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.anchors.update(value for key in ("id", "name") if (value := given.get(key)))
        if (link := given.get("href")) is not None:
            (self.links if tag == "a" else self.loads).add(link)
        if (source := given.get("src")) is not None:
            self.loads.add(source)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    done = _run(*command, str(folder), cwd=PROJECT)
    assert (done.returncode, done.stdout) == (0, "")
    return folder


def test_pages_have_the_api(site: Path) -> None:
    assert "reshape" in (site / "api" / "array.html").read_text()
    anchors = Page(site / "api" / "core.html").anchors
    assert {"compile", "value_and_grad", "logsumexp", "conv2d"} <= anchors


def test_all_links_work_from_disk(site: Path) -> None:
    """They name files and parts of them that are there; nothing is loaded from elsewhere."""
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    broken = []
    for path, page in pages.items():
        for link in page.links | page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads:
                    broken.append(f"{path.name} loads {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages[target].anchors if target in pages else {""}
            if not target.is_file() or unquote(parts.fragment) not in known:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert len(pages) > 30
    assert broken == []


def test_search_works_from_disk(site: Path) -> None:
    names = (os.environ.get("INGOT_BROWSER"), "chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no browser")
    asked: list[str] = []
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1300, "height": 800})
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "guide" / "memory.html").as_uri())
        page.click(".md-search__input")
        page.keyboard.type("compile")
        page.wait_for_selector(".md-search-result__link")
        found = page.locator(".md-search-result__link").evaluate_all("all => all.map(a => a.href)")
        browser.close()
    assert all(url.startswith("file:") for url in asked)
    assert found[0].endswith("api/core.html")  # the page of the first result, then that itself
    assert found[1].endswith("api/core.html#compile")


def test_links_of_the_repository_work() -> None:
    """Those of README and docs, as they are read where the repository is."""
    broken = []
    for document in (*DOCUMENTS, PROJECT / "CONTRIBUTING.md", PROJECT / "examples" / "README.md"):
        text = EXAMPLE.sub("", document.read_text())
        for link in re.findall(r"\]\(([^)#\s]+)", text):
            if not urlsplit(link).scheme and not (document.parent / link).exists():
                broken.append(f"{document.relative_to(PROJECT)}: {link}")
    assert broken == []


def test_all_environment_variables_are_documented() -> None:
    """Those that anything reads, and only those."""
    read: set[str] = set()
    for path in (PROJECT / "src/ingot").rglob("*.py"):
        read |= set(VARIABLE.findall(path.read_text()))
    for path in (*(PROJECT / "build_support").glob("*.py"), *PROJECT.glob("src/**/*.c")):
        read |= set(re.findall(r'"(INGOT_[A-Z_]+)"', path.read_text()))
    documented = set(VARIABLE.findall((PROJECT / "docs/guide/environment.md").read_text()))
    assert read - documented == set()
    of_tests = {"INGOT_BROWSER", "INGOT_UPDATE_GOLDENS", "INGOT_CHECK_KERNELS", "INGOT_PRODUCTS"}
    assert documented - read == of_tests


def test_folders_of_the_documentation_are_small() -> None:
    folders = {path.parent for path in DOCUMENTS}
    assert max(len(list(folder.iterdir())) for folder in folders - {PROJECT}) <= 15


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((PROJECT / "CITATION.cff").read_text())
    assert citation["version"] == ingot.__version__
    headings = re.findall(r"^## (\S+)", (PROJECT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == ingot.__version__

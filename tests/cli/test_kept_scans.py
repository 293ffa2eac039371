"""`ingot run` keeps what transformers finds out about its own files, and notices every change."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ingot.drop_in import keep_scans, kept_scans, scan_results

from .process import ingot as command
from .process import python

# A function that maps a folder to the first lines of its modules, with the names of the real one,
# and counts the files that it reads.
SCAN = """
import os
from functools import lru_cache

read_files = []
BASE_FILE_REQUIREMENTS = {lambda name: name.startswith("modeling_"): ("torch",)}

def fetch__all__(content):
    return content.splitlines()[0]

def create_import_structure_from_path(path):
    found = {}
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                found[entry.name] = create_import_structure_from_path(entry.path)
            elif entry.name.endswith(".py"):
                read_files.append(entry.name)
                with open(entry.path) as file:
                    found[entry.name] = {fetch__all__(file.read())}
                for check, backends in BASE_FILE_REQUIREMENTS.items():
                    if check(entry.name):
                        found[entry.name].add(frozenset(backends))
    return found

@lru_cache
def define_import_structure(module_path, prefix=None):
    \"\"\"Reads them.\"\"\"
    found = create_import_structure_from_path(module_path)
    return found if prefix is None else {prefix: found}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(scan_results, "MIN_MODULES", 4)
    monkeypatch.setattr(scan_results, "SETTLED", 0)
    monkeypatch.setattr(scan_results, "_NAMES", scan_results._NAMES | {"read_files", "key"})
    made = tmp_path / "models"
    for name in ("a/one.py", "a/modeling_two.py", "b/three.py", "b/c/four.py", "b/notes.txt"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(f"first line of {name}\nsecond")
    return made


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[[], ModuleType]:
    """Returns the module as a new process would load it."""
    source = tmp_path / "scanning.py"
    source.write_text(SCAN)

    def load() -> ModuleType:
        spec = importlib.util.spec_from_file_location("scanning", source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        scan_results.keep(module)
        return module

    return load


def test_a_second_process_reads_no_file(folder: Path, loaded: Callable[[], ModuleType]) -> None:
    first = loaded()
    result = first.define_import_structure(folder)
    assert len(first.read_files) == 4
    assert result["a"]["modeling_two.py"] == {
        "first line of a/modeling_two.py",
        frozenset({"torch"}),
    }
    second = loaded()
    assert second.define_import_structure(folder) == result
    assert second.read_files == []
    assert second.define_import_structure(folder) is second.define_import_structure(folder)


def test_arguments_count(folder: Path, loaded: Callable[[], ModuleType]) -> None:
    module = loaded()
    plain = module.define_import_structure(folder)
    assert module.define_import_structure(folder, prefix="p") == {"p": plain}
    assert module.define_import_structure(folder, "q") == {"q": plain}
    again = loaded()
    assert again.define_import_structure(folder, prefix="p") == {"p": plain}
    assert again.define_import_structure(folder, "q") == {"q": plain}
    assert again.read_files == []


def _write_same_length(folder: Path) -> None:
    (folder / "b" / "three.py").write_text("fresh line of b/three.py\nsecond")


def _write_with_old_time(folder: Path) -> None:
    path = folder / "b" / "three.py"
    before = path.stat()
    path.write_text("fresh line of b/three.py\nsecond")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace(folder: Path) -> None:
    path = folder / "b" / "three.py"
    before = path.stat()
    fresh = folder / "fresh"
    fresh.write_text("fresh line of b/three.py\nsecond")
    os.utime(fresh, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(fresh, path)


def _add(folder: Path) -> None:
    (folder / "b" / "c" / "five.py").write_text("new")


def _remove(folder: Path) -> None:
    (folder / "b" / "c" / "four.py").unlink()
    (folder / "b" / "c" / "six.py").write_text("new")


def _rename(folder: Path) -> None:
    (folder / "b" / "c").rename(folder / "b" / "d")


@pytest.mark.parametrize(
    "change", [_write_same_length, _write_with_old_time, _replace, _add, _remove, _rename]
)
def test_a_change_is_noticed(
    change: Callable[[Path], None], folder: Path, loaded: Callable[[], ModuleType]
) -> None:
    before = loaded().define_import_structure(folder)
    change(folder)
    module = loaded()
    after = module.define_import_structure(folder)
    assert module.read_files != []
    assert after != before
    assert after == module.create_import_structure_from_path(folder)


def test_a_changed_function_is_noticed(
    folder: Path, loaded: Callable[[], ModuleType], tmp_path: Path
) -> None:
    loaded().define_import_structure(folder)
    source = tmp_path / "scanning.py"
    source.write_text(SCAN.replace("splitlines()[0]", "splitlines()[1]"))
    module = loaded_again(source)
    assert module.define_import_structure(folder)["a"]["one.py"] == {"second"}


def loaded_again(source: Path) -> ModuleType:
    module = ModuleType("scanning")
    module.__file__ = str(source)
    exec(compile(source.read_text(), source, "exec"), vars(module))
    scan_results.keep(module)
    return module


@pytest.mark.parametrize("part", ["fetch__all__", "BASE_FILE_REQUIREMENTS"])
def test_a_replaced_part_is_used(part: str, folder: Path, loaded: Callable[[], ModuleType]) -> None:
    loaded().define_import_structure(folder)
    module = loaded()
    if part == "fetch__all__":
        module.fetch__all__ = len  # type: ignore[attr-defined]
    else:
        module.BASE_FILE_REQUIREMENTS.clear()
    assert module.define_import_structure(folder) == module.create_import_structure_from_path(
        folder
    )
    assert len(module.read_files) == 8


def test_a_function_that_reads_more_than_files_is_left_alone(
    folder: Path, tmp_path: Path, loaded: Callable[[], ModuleType]
) -> None:
    source = tmp_path / "scanning.py"
    source.write_text(SCAN.replace("return content", "return os.environ.get('X') or content"))
    module = loaded()
    assert module.define_import_structure.__wrapped__.__code__.co_filename == str(source)


def test_small_folders_and_files_that_have_just_changed_are_read(
    folder: Path, loaded: Callable[[], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_results, "SETTLED", 3600 * 10**9)
    for _ in range(2):
        module = loaded()
        module.define_import_structure(folder)
        assert len(module.read_files) == 4
    monkeypatch.setattr(scan_results, "SETTLED", 0)
    monkeypatch.setattr(scan_results, "MIN_MODULES", 100)
    for _ in range(2):
        module = loaded()
        module.define_import_structure(folder)
        assert len(module.read_files) == 4


def test_errors_are_those_of_the_function(folder: Path, loaded: Callable[[], ModuleType]) -> None:
    module = loaded()
    with pytest.raises(FileNotFoundError):
        module.define_import_structure(folder / "nowhere")
    (folder / "a" / "empty.py").write_text("")
    with pytest.raises(IndexError):
        module.define_import_structure(folder)


def test_damaged_results_are_computed_again(
    folder: Path, loaded: Callable[[], ModuleType], tmp_path: Path
) -> None:
    result = loaded().define_import_structure(folder)
    (entry,) = (tmp_path / "cache").glob("*.o")
    entry.write_bytes(entry.read_bytes()[:-1] + b"?")
    module = loaded()
    assert module.define_import_structure(folder) == result
    assert len(module.read_files) == 4


# The import hook


@pytest.fixture
def package(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package named transformers, instead of the installed one."""
    made = tmp_path / "path" / "transformers" / "utils"
    made.mkdir(parents=True)
    (made.parent / "__init__.py").write_text("")
    (made / "__init__.py").write_text("")
    (made / "import_utils.py").write_text(f"{SCAN}\nloader = __spec__.loader\n")
    monkeypatch.syspath_prepend(made.parent.parent)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "transformers"]:
        monkeypatch.delitem(sys.modules, name)
    yield made
    for name in [name for name in sys.modules if name.partition(".")[0] == "transformers"]:
        del sys.modules[name]


def test_the_module_looks_as_if_nothing_had_loaded_it_but_its_loader(package: Path) -> None:
    keep_scans()
    module = importlib.import_module("transformers.utils.import_utils")
    assert module.__spec__ is not None
    loader = module.__spec__.loader
    assert type(loader).__module__ == "_frozen_importlib_external"
    assert module.__loader__ is loader is module.loader
    assert module.__file__ == str(package / "import_utils.py")
    function = module.define_import_structure
    assert function.__name__ == function.__qualname__ == "define_import_structure"
    assert function.__module__ == module.__name__
    assert function.__doc__ == "Reads them."
    assert isinstance(function, functools._lru_cache_wrapper)
    assert hasattr(function.__wrapped__.__wrapped__, "cache_info")
    assert importlib.reload(module) is module


@pytest.mark.parametrize("value", ["0", "off"])
def test_it_can_be_switched_off(value: str, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_KEEP_SCANS", value)
    keep_scans()
    assert not any(isinstance(finder, kept_scans.ScanFinder) for finder in sys.meta_path)


def test_ingot_run_keeps_scans(package: Path, folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "from ingot.drop_in import scan_results\n"
        "scan_results.MIN_MODULES, scan_results.SETTLED = 4, 0\n"
        "scan_results._NAMES |= {'read_files', 'key'}\n"
        "from transformers.utils import import_utils\n"
        "import_utils.define_import_structure(sys.argv[1])\n"
        "print(len(import_utils.read_files))\n"
    )
    path = os.pathsep.join([str(package.parent.parent), os.environ.get("PYTHONPATH", "")])
    environment = {"PYTHONPATH": path, "INGOT_CACHE_DIR": str(tmp_path / "cache")}
    for expected in ("4", "0"):
        done = command("run", program, folder, **environment)
        assert done.stdout.strip() == expected, done.stderr
    done = command("run", program, folder, **environment, INGOT_CACHE="0")
    assert done.stdout.strip() == "4", done.stderr


REAL = """
import sys
sys.modules["torch"] = None
from pathlib import Path
from ingot.drop_in import keep_scans
keep_scans()
from transformers.utils import import_utils
kept = import_utils.define_import_structure
assert kept.__wrapped__.__code__.co_filename.endswith("scan_results.py"), "it is not known"
folder = Path(import_utils.__file__).parent.parent / "models"
found = kept.__wrapped__(folder, prefix="models")  # not what the package has changed since
assert found == kept.__wrapped__.__wrapped__.__wrapped__(folder, prefix="models")
print(sum(map(len, found.values())) > 500)
"""


def test_the_installed_transformers_is_known(tmp_path: Path) -> None:
    for _ in range(2):
        done = python("-c", REAL, INGOT_CACHE_DIR=str(tmp_path / "cache"))
        assert done.stdout == "True\n", done.stderr

"""build_support/browser.sh: where there is a browser, where it may install one, where it may not.
Every program that it calls is a stand-in.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "build_support" / "browser.sh"
TOOLS = ("sh", "dirname", "mkdir", "rm", "tail", "sed", "cat", "touch", "chmod")


class Machine:
    """A folder for the project and one for the programs that the script can find."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.programs = folder / "bin"
        (self.project / "build_support").mkdir(parents=True)
        self.programs.mkdir()
        shutil.copy(SCRIPT, self.project / "build_support")
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None
            (self.programs / tool).symlink_to(found)
        self.add("id", "echo 0")
        self.add("grep", "exit 0")  # the system is Debian

    def add(self, name: str, body: str) -> None:
        path = self.programs / name
        path.write_text(f"#!{shutil.which('sh')}\n{body}\n")
        path.chmod(0o755)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        shell = str(self.programs / "sh")
        script = str(self.project / "build_support" / "browser.sh")
        done = subprocess.run(
            [shell, script, *arguments],
            env={"PATH": str(self.programs)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done

    @property
    def reason(self) -> str:
        path = self.project / "build" / "browser.txt"
        return path.read_text().strip() if path.exists() else ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_browser_that_is_there(machine: Machine) -> None:
    machine.add("chromium", "exit 0")
    machine.add("apt-get", "echo called; exit 1")
    done = machine.run()
    assert done.stdout == done.stderr == machine.reason == ""


def test_one_that_can_be_installed(machine: Machine) -> None:
    # The first attempt fails because there are no lists of packages yet.
    machine.add(
        "apt-get",
        f'echo "$@" >> {machine.project}/calls\n'
        f'case "$1" in update) touch {machine.project}/lists;; install)\n'
        f"  [ -e {machine.project}/lists ] || exit 100\n"
        f"  echo exit > {machine.programs}/chromium; chmod +x {machine.programs}/chromium;; esac",
    )
    done = machine.run()
    assert "installed chromium" in done.stdout
    assert machine.reason == ""
    calls = (machine.project / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["install", "update", "install"]
    assert machine.run("again").stdout == ""


def test_one_that_cannot_be_installed(machine: Machine) -> None:
    machine.add("apt-get", f"echo E: no route; echo x >> {machine.project}/calls; exit 100")
    done = machine.run()
    assert "apt-get should have installed chromium and FAILED" in done.stderr
    assert "E: no route" in done.stderr
    assert machine.reason == "apt-get could not install chromium: build/browser.log"
    attempts = (machine.project / "calls").read_text()
    assert machine.run("again").stderr == ""  # the tests say it; it is not tried twice
    assert (machine.project / "calls").read_text() == attempts


def test_where_it_may_not_be_installed(machine: Machine) -> None:
    machine.add("apt-get", "echo called; exit 1")
    machine.add("id", "echo 1000")
    done = machine.run()
    assert "only root may install it" in done.stderr
    assert "only root may install it" in machine.reason
    machine.add("id", "echo 0")
    machine.add("grep", "exit 1")  # another system
    machine.run()
    assert "only Debian's apt-get is known to install it" in machine.reason
    machine.add("chromium", "exit 0")
    machine.run()
    assert machine.reason == ""

"""The README is executed: every command in it runs, and what it prints is what the README shows.

Numbers may differ in the last places (another processor sums in another order); words may not.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)")
TOLERANCE = 0.02


def sessions() -> list[tuple[str, str]]:
    """(command, output) of every ```console block; "..." stands for lines that are left out."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = entry.partition("\n")
            found.append((command, output))
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a newcomer has, so that the runs of the README leave nothing here."""
    copy = tmp_path_factory.mktemp("readme") / "rankloom"
    copy.mkdir()
    for name in ("configs", "data"):
        shutil.copytree(ROOT / name, copy / name)
    return copy


def test_every_command_of_the_readme_does_what_it_shows(project: Path) -> None:
    assert len(sessions()) >= 8
    for command, shown in sessions():
        printed = run(command, project)
        for line in [line for line in shown.splitlines() if line.strip() and line.strip() != "..."]:
            assert any(alike(line, other) for other in printed.splitlines()), f"{command}\n{line}\nnot in\n{printed}"


def test_the_python_of_the_readme_runs(project: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for block in blocks:
        subprocess.run([sys.executable, "-c", block], cwd=project, check=True, capture_output=True, env=environment)


def run(command: str, folder: Path) -> str:
    words = shlex.split(command)
    if words == ["make", "demo"]:
        recipe = re.search(r"^demo:.*\n\t@\$\(BIN\)/(rankloom .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert recipe
        words = shlex.split(recipe.group(1))
    assert words[0] == "rankloom", command
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160"}
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *words[1:]], cwd=folder, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout + done.stderr


def alike(line: str, other: str) -> bool:
    """Whether two lines have the same words, and numbers that are close."""
    if NUMBER.sub("#", line).split() != NUMBER.sub("#", other).split():
        return False
    pairs = zip(NUMBER.findall(line), NUMBER.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= TOLERANCE * max(1.0, abs(float(a))) for a, b in pairs)


def test_numbers_may_drift_and_words_may_not() -> None:
    assert alike("model 0.6000 [+0.010]", "model   0.6001 [+0.011]")
    assert not alike("model 0.6000", "model 0.7000")
    assert not alike("model 0.6000", "shown 0.6000")

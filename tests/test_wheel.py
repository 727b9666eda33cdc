"""The wheel as a stranger gets it: it builds, and its scorer imports where nothing else of ours is installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", out, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    return next(out.glob("rankloom-*.whl"))


def test_the_wheel_holds_our_packages_and_nothing_else(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in tops if not name.endswith(".dist-info")} == {"features", "pipeline"}


@pytest.mark.slow
def test_the_scorer_imports_from_the_wheel_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "clean"], check=True)
    python = tmp_path / "clean" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel]
    subprocess.run(install, check=True, capture_output=True, cwd=tmp_path)
    code = "import pipeline.scorer as s; print(s.Scorer.__name__, s.__file__)"
    shown = subprocess.run([python, "-I", "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert shown.stdout.startswith("Scorer ")
    assert str(tmp_path) in shown.stdout
    verb = subprocess.run([python.with_name("rankloom"), "--help"], check=True, capture_output=True, text=True)
    assert "train" in verb.stdout

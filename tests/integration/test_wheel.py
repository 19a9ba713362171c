"""The command outside of a checkout, as `pip install .` and `uv tool install .` bring it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.embedded.settings import CHECKOUT

FOLDERS = ("cli", "deploy", "libs", "services")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of packages into which the wheel was unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=CHECKOUT, check=True, capture_output=True)
    (wheel,) = folder.glob("heeler-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "packages")
    return folder / "packages"


def test_a_wheel_has_every_file_of_the_product(installed: Path) -> None:
    files = {
        str(path.relative_to(CHECKOUT))
        for folder in FOLDERS
        for path in (CHECKOUT / folder).rglob("*")
        if path.is_file() and not {"__pycache__", "wheels"} & {*path.parts}
    }
    there = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    assert len(files) > 500
    assert files <= there
    assert "cli/starters/chatbot/template.toml" in there  # of `heeler create --template`


def test_an_installed_command_keeps_its_data_in_the_users_folder(
    installed: Path, tmp_path: Path
) -> None:
    (points,) = installed.glob("heeler-*.dist-info/entry_points.txt")
    assert "heeler = cli.__main__:main" in points.read_text()
    asked = "import sys; from cli.__main__ import main; sys.exit(main(['status', '--json']))"
    answer = subprocess.run(
        [sys.executable, "-P", "-c", asked],
        cwd=tmp_path,
        env={"PYTHONPATH": str(installed), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert f'"home": "{tmp_path}/.local/share/heeler"' in answer.stdout, answer.stderr

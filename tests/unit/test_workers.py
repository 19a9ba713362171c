"""`--workers`: forks run the tests, and what they find is reported as by one process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
FILES = {
    "test_folders.py": "def test_folder(tmp_path): assert tmp_path.parent.name[:6] == 'worker'",
    "test_failing.py": "def test_fails():\n    print('what it printed')\n    assert 1 + 1 == 3",
    "test_dying.py": "import os\ndef test_dies(): os.kill(os.getpid(), 9)\ndef test_later(): pass",
    "test_shared.py": "import pytest\n@pytest.mark.skip('no time')\ndef test_skipped(): pass",
}


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    without = ("asyncio", "anyio", "timeout", "xdist", "schemathesis", "hypothesispytest", "heeler")
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.workers_plugin", "-ra", *options),
            *(f"-pno:{plugin}" for plugin in without),
            f"--rootdir={folder}",
            *(str(folder / name) for name in FILES),
        ],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_every_result_is_reported_and_the_death_of_a_worker_is_a_failure(tmp_path: Path) -> None:
    ended = run(tmp_path, "--workers", "3", "-v")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "what it printed" in ended.stdout
    assert "assert (1 + 1) == 3" in ended.stdout
    assert "died of SIGKILL while it ran test_dying.py::test_dies" in ended.stdout
    assert "no time" in ended.stdout
    assert "2 failed, 1 passed, 1 skipped" in ended.stdout


def test_a_file_that_cannot_be_imported_is_reported_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nothing_like_this")
    ended = run(tmp_path, "--workers", "2", str(tmp_path / "test_broken.py"))
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "nothing_like_this" in ended.stdout
    assert "passed" not in ended.stdout

"""docs/testing.md has a row for each folder of tests, and names only what is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
PAGE = (CHECKOUT / "docs" / "testing.md").read_text()


def test_each_folder_with_tests_has_a_row_and_is_run() -> None:
    rows = re.findall(r"^\| [^|`]+ \| `(tests/\w+)` \|", PAGE, re.MULTILINE)
    folders = {path.relative_to(CHECKOUT).parts[1] for path in CHECKOUT.glob("tests/**/test_*.py")}
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    run = project["tool"]["pytest"]["ini_options"]["testpaths"]
    assert sorted(rows) == sorted(run) == sorted(f"tests/{folder}" for folder in folders)


def test_the_targets_and_files_that_it_names_are_there() -> None:
    makefile = (CHECKOUT / "Makefile").read_text()
    for target in re.findall(r"`make ([a-z-]+)`", PAGE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for path in re.findall(r"`(tests/[\w./]+)`", PAGE):
        assert (CHECKOUT / path).exists(), path

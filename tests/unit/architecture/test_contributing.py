"""The walks of CONTRIBUTING.md: each edit has its place, and what it names is there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.walks import CHECKOUT, walks

PAGE = (CHECKOUT / "CONTRIBUTING.md").read_text()
FIELD, TOOL, RESOURCE = "Add a field to agents", "Add a built-in tool", "Add a resource"
PATH = re.compile(r"`((?:libs|services|tests|deploy|docs)/[\w/.]+)`")
WRITTEN = {edit.path for edits in walks().values() for edit in edits if edit.old is None}


def test_these_are_the_walks() -> None:
    assert [*walks()] == [FIELD, TOOL, RESOURCE]


@pytest.mark.parametrize("walk", walks())
def test_every_edit_of_a_walk_has_its_place(walk: str, tmp_path: Path) -> None:
    for edit in walks()[walk]:
        target = tmp_path / edit.path
        if (CHECKOUT / edit.path).exists() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / edit.path, target)
        target.parent.mkdir(parents=True, exist_ok=True)
        edit.apply(tmp_path)


@pytest.mark.parametrize("path", sorted({*PATH.findall(PAGE)} - WRITTEN))
def test_what_the_page_names_is_there(path: str) -> None:
    assert (CHECKOUT / path).exists()

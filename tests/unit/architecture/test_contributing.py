"""The walks of CONTRIBUTING.md: each edit has its place, and what it names is there."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.walks import CHECKOUT, Edit, walks

PAGE = (CHECKOUT / "CONTRIBUTING.md").read_text()
FIELD, TOOL, RESOURCE = "Add a field to agents", "Add a built-in tool", "Add a resource"
PATH = re.compile(r"`((?:libs|services|tests|deploy|docs)/[\w/.]+)`")
OTHER_NAMES = {"nickname": "motto", "dice": "coin", "counter": "gauge"}
WRITTEN = {edit.path for edits in walks().values() for edit in edits if edit.old is None}


def test_these_are_the_walks() -> None:
    assert [*walks()] == [FIELD, TOOL, RESOURCE]


def with_other_names(edit: Edit) -> Edit:
    """The same edit for another field, tool or resource."""
    path, new = edit.path, edit.new
    for name, other in OTHER_NAMES.items():
        path = path.replace(name, other) if edit.old is None else path
        for form in (str.lower, str.upper, str.title):
            new = new.replace(form(name), form(other))
    return replace(edit, path=path, new=new)


@pytest.mark.parametrize("walk", walks())
def test_every_edit_of_a_walk_has_its_place_also_after_a_first_walk(
    walk: str, tmp_path: Path
) -> None:
    for edit in (*map(with_other_names, walks()[walk]), *walks()[walk]):
        target = tmp_path / edit.path
        if (CHECKOUT / edit.path).exists() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / edit.path, target)
        target.parent.mkdir(parents=True, exist_ok=True)
        edit.apply(tmp_path)


@pytest.mark.parametrize("path", sorted({*PATH.findall(PAGE)} - WRITTEN))
def test_what_the_page_names_is_there(path: str) -> None:
    assert (CHECKOUT / path).exists()

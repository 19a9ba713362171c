"""The lines of files of items end where JSON lines end, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.batches import _items
from cli.exit_codes import CommandError
from libs.bus.toml_lines import key_lines
from libs.contracts.outside_texts import lines_of
from services.agent.domain.tools.block_patches import BlockPatch, block_patches

INSIDE = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_of_items_ends_at_a_line_feed_alone(tmp_path: Path, end: str) -> None:
    texts = [f"one{mark}more" for mark in INSIDE]
    lines = [json.dumps(text, ensure_ascii=False) for text in texts]
    file = tmp_path / "questions.jsonl"
    file.write_bytes(end.join([*lines[:2], "", *lines[2:], ""]).encode())
    # JSON has the C0 characters as escapes: as they are they stand in no text.
    assert [json.loads(line) for line in lines_of(file.read_text()) if line] == texts
    assert [item for _, item in _items(file)] == texts
    assert [number for number, _ in _items(file)] == [1, 2, 4, 5, 6, 7]


def test_a_line_that_is_nested_too_deeply_is_refused_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    file.write_text('"one"\n' + "[" * 100_000 + "\n")
    with pytest.raises(CommandError, match=r"items.jsonl:2: no JSON"):
        _items(file)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_line_with_a_number_that_json_has_not_is_refused_by_its_number(
    tmp_path: Path, number: str
) -> None:
    file = tmp_path / "items.jsonl"
    file.write_text(f'"one"\n{{"input": {number}}}\n')
    with pytest.raises(CommandError, match=r"items.jsonl:2: no JSON"):
        _items(file)


@pytest.mark.parametrize(
    ("text", "lines"),
    [("", []), ("a", ["a"]), ("a\n", ["a"]), ("\n\n", ["", ""]), ("a\r\nb\rc", ["a", "b\rc"])],
)
def test_lines_are_counted_as_files_count_them(text: str, lines: list[str]) -> None:
    assert lines_of(text) == lines


def test_keys_of_toml_stand_on_the_lines_that_editors_show() -> None:
    text = 'a = "one\u2028two"\n# \x85\nb = 1\n'
    assert key_lines(text) == {("a",): 1, ("b",): 3}


def test_a_patch_of_a_block_may_have_such_characters_in_its_lines() -> None:
    [patch] = block_patches("human", "-one\u2028two\n+one\u2028three\n")
    assert isinstance(patch, BlockPatch)
    [change] = patch.changes
    assert (change.old_lines, change.new_lines) == (["one\u2028two"], ["one\u2028three"])

"""R41 in the memory service: edits of blocks and texts of files are read once."""

from __future__ import annotations

import pytest

from libs.contracts.bus_messages import Rejected
from libs.contracts.letta.blocks import BlockState
from libs.contracts.memory.blocks import ReplaceLines, ReplaceText
from libs.contracts.state_size_limits import BLOCK_BYTES_MAX
from services.memory.domain.block import replace_lines, value_after
from services.memory.domain.chunks import CHUNK_TOKENS_MAX, chunks_of
from services.memory.domain.text_segments import SEGMENT_CHARS_MAX, TextSegments
from tests.processor_bounds import processor_time


def block(value: str) -> BlockState:
    """A block with this value."""
    return BlockState(id="block-1", label="notes", value=value, limit=2_000_000)


@pytest.mark.parametrize("line", ["", "a", "ab" * 20])
def test_lines_that_stand_nowhere_are_looked_for_once(line: str) -> None:
    long = block("\n".join([line] * (BLOCK_BYTES_MAX // (len(line) + 1))))
    change = ReplaceLines(old_lines=[line] * 10_000 + ["b"], new_lines=["c"])
    with processor_time():
        assert isinstance(replace_lines(long, [change]), Rejected)


def test_lines_are_replaced_where_they_stand() -> None:
    def change(old: list[str], new: list[str]) -> ReplaceLines:
        return ReplaceLines(old_lines=old, new_lines=new)

    assert replace_lines(block("a\nb\na\nc"), [change(["b", "a"], ["x", "y"])]) == "a\nx\ny\nc"
    assert replace_lines(block("a"), [change(["a"], [])]) == ""
    assert replace_lines(block(""), [change([], ["a", "b"])]) == "a\nb"
    assert replace_lines(block("a\n"), [change([], ["b"]), change(["a"], ["c"])]) == "c\n\nb"
    assert isinstance(replace_lines(block("ab"), [change(["a"], ["x"])]), Rejected)


def test_a_text_that_stands_in_every_line_is_counted_once() -> None:
    long = block("a\n" * (BLOCK_BYTES_MAX // 2 - 2))
    with processor_time():
        refused = value_after(long, ReplaceText(old_text="a", new_text="b"))
    assert isinstance(refused, Rejected)
    assert len(refused.reason) < 1_000


@pytest.mark.parametrize("unit", ["\n", "a\n", "#\n", "a", " ", "\r", "é"])
def test_a_segment_of_a_file_is_cut_soon(unit: str) -> None:
    with processor_time():
        for segment in TextSegments().feed(unit * (SEGMENT_CHARS_MAX + 1)):
            chunks_of(segment, CHUNK_TOKENS_MAX)

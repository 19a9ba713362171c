"""Memory blocks: given what happened, when a command comes, then events or a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from libs.contracts.bus_messages import (
    CONFLICT,
    INVALID,
    NOT_FOUND,
    UNPROCESSABLE,
)
from libs.contracts.letta.blocks import BlockState, block_state
from libs.contracts.memory.blocks import (
    BlockChanged,
    BlockCreated,
    BlockDeleted,
    Cause,
    InsertText,
    RenameBlock,
    ReplaceLines,
    ReplaceText,
)
from libs.contracts.state_size_limits import BLOCK_BYTES_MAX
from libs.eventstore.read_model_rows import Deletion, RowWrites
from services.memory.domain.block import LABEL_CHARS_MAX, Block
from services.memory.projections import project
from services.memory.projections.tables import BLOCKS
from tests.contract.examples import BLOCK, CAUSE, HUMAN
from tests.unit.given import LATER, NOW, fact, given

CREATED = fact(BlockCreated, block=HUMAN)
DELETED = fact(BlockDeleted)


def human(**fields: Any) -> BlockState:
    return HUMAN.model_copy(update=fields)


@pytest.mark.parametrize("limit", [0, -1])
def test_no_event_has_a_limit_that_no_block_can_have(limit: int) -> None:
    """DST-23: it cannot be written down, and a log that says so can still be read."""
    written = {"originator_id": BLOCK, "originator_version": 1, "timestamp": NOW}
    for event, fields in (
        (BlockCreated, {"block": human(limit=limit)}),
        (BlockChanged, {"changes": {"limit": limit}}),
    ):
        payload = event.model_validate({**written, **fields}).model_dump(mode="json")
        assert (payload.get("block") or payload["changes"])["limit"] == 1


class TestCreation:
    def test_a_block_begins_to_exist_with_all_its_fields(self) -> None:
        given(Block, BLOCK).when(lambda block: block.create(HUMAN, at=NOW)).then(CREATED)

    def test_a_block_that_exists_is_not_made_again(self) -> None:
        given(Block, BLOCK, CREATED).when(lambda block: block.create(HUMAN, at=NOW)).then_refused(
            CONFLICT, BLOCK, "exists already"
        )

    def test_the_id_of_a_deleted_block_is_not_used_again(self) -> None:
        given(Block, BLOCK, CREATED, DELETED).when(
            lambda block: block.create(HUMAN, at=NOW)
        ).then_refused(CONFLICT, BLOCK)

    @pytest.mark.parametrize(
        ("wanted", "words"),
        [
            (human(label=""), "`label` must not be empty"),
            (human(label=None), "`label` must not be empty"),
            (human(label="x" * (LABEL_CHARS_MAX + 1)), "at most 200 characters"),
            (human(limit=0, value=""), "`limit` must be at least 1"),
            (human(limit=8), "9 characters, more than its `limit` of 8"),
        ],
    )
    def test_a_block_that_cannot_be_is_refused(self, wanted: BlockState, words: str) -> None:
        given(Block, BLOCK).when(lambda block: block.create(wanted, at=NOW)).then_refused(
            UNPROCESSABLE, words
        )

    @pytest.mark.parametrize(
        "wanted", [human(label="x" * LABEL_CHARS_MAX), human(limit=9), human(value="", limit=1)]
    )
    def test_a_limit_may_be_reached(self, wanted: BlockState) -> None:
        given(Block, BLOCK).when(lambda block: block.create(wanted, at=NOW)).then(
            fact(BlockCreated, block=wanted)
        )


class TestUpdate:
    def test_only_the_given_fields_change(self) -> None:
        past = given(Block, BLOCK, CREATED)
        past.when(lambda block: block.update({"value": "Name: Grace"}, at=NOW)).then(
            fact(BlockChanged, changes={"value": "Name: Grace"})
        )
        assert past.aggregate.present == human(value="Name: Grace")

    def test_what_is_recorded_is_what_took_effect(self) -> None:
        past = given(Block, BLOCK, CREATED)
        past.when(lambda block: block.update({"limit": "300"}, at=NOW)).then(
            fact(BlockChanged, changes={"limit": 300})
        )

    @pytest.mark.parametrize(
        "changes",
        [{}, {"value": HUMAN.value}, {"id": "block-9"}, {"created_by_id": "u"}, {"colour": "red"}],
    )
    def test_changing_nothing_is_not_an_event(self, changes: dict[str, Any]) -> None:
        given(Block, BLOCK, CREATED).when(
            lambda block: block.update(changes, at=NOW)
        ).then_nothing()

    def test_a_limit_below_the_value_is_refused(self) -> None:
        given(Block, BLOCK, CREATED).when(
            lambda block: block.update({"limit": 5}, at=NOW)
        ).then_refused(UNPROCESSABLE, "9 characters", "`limit` of 5")

    def test_a_value_of_the_wrong_type_is_refused_by_field(self) -> None:
        given(Block, BLOCK, CREATED).when(
            lambda block: block.update({"value": 7}, at=NOW)
        ).then_refused(INVALID, BLOCK, "value")

    @pytest.mark.parametrize("past", [(), (CREATED, DELETED)], ids=["never", "deleted"])
    def test_a_block_that_is_not_there_does_not_change(self, past: Any) -> None:
        for decide in (
            lambda block: block.update({"value": "x"}, at=NOW),
            lambda block: block.edit(InsertText(new_text="x"), CAUSE, at=NOW),
            lambda block: block.delete(at=NOW),
        ):
            given(Block, BLOCK, *past).when(decide).then_refused(NOT_FOUND, BLOCK)

    def test_a_read_only_block_can_be_changed_by_a_person_and_not_by_a_tool(self) -> None:
        past = fact(BlockCreated, block=human(read_only=True))
        given(Block, BLOCK, past).when(lambda block: block.update({"value": "x"}, at=NOW)).then(
            fact(BlockChanged, changes={"value": "x"})
        )
        given(Block, BLOCK, past).when(
            lambda block: block.edit(InsertText(new_text="x"), CAUSE, at=NOW)
        ).then_refused(UNPROCESSABLE, "'human' is read-only")


def lines(old: str | None, new: str | None) -> ReplaceLines:
    """A change of lines, given as one text each; None for none."""

    def split(text: str | None) -> list[str]:
        return [] if text is None else text.split("\n")

    return ReplaceLines(old_lines=split(old), new_lines=split(new))


class TestEdit:
    @pytest.mark.parametrize(
        ("value", "edit", "after"),
        [
            ("Name: Ada", ReplaceText(old_text="Ada", new_text="Grace"), "Name: Grace"),
            ("Name: Ada", ReplaceText(old_text=": Ada", new_text=""), "Name"),
            ("", InsertText(new_text="a"), "a"),
            ("a\nb", InsertText(new_text="c"), "a\nb\nc"),
            ("a\nb", InsertText(new_text="c", after_line=0), "c\na\nb"),
            ("a\nb", InsertText(new_text="c", after_line=1), "a\nc\nb"),
            ("a", InsertText(new_text="b\nc", after_line=1), "a\nb\nc"),
            ("a <b> c", ReplaceText(old_text="&lt;b>", new_text="&lt;i>"), "a <i> c"),
            ("a &lt;b c", ReplaceText(old_text="&amp;lt;b", new_text="b"), "a b c"),
            ("a &lt;b c", ReplaceText(old_text="&lt;b", new_text="&lt;i"), "a &lt;i c"),
            ("a <b> c", ReplaceText(old_text="<b>", new_text="&lt;i>"), "a &lt;i> c"),
            ("a\x00b".replace("\x00", ""), InsertText(new_text="c\x00"), "ab\nc"),
        ],
    )
    def test_an_edit_changes_the_value_and_says_which_call_did_it(
        self, value: str, edit: Any, after: str
    ) -> None:
        given(Block, BLOCK, fact(BlockCreated, block=human(value=value))).when(
            lambda block: block.edit(edit, CAUSE, at=NOW)
        ).then(fact(BlockChanged, changes={"value": after}, cause=CAUSE))

    @pytest.mark.parametrize(
        ("edit", "words"),
        [
            (ReplaceText(old_text="Bob", new_text=""), "`Bob` does not stand"),
            (ReplaceText(old_text="", new_text="x"), "does not stand"),
            (ReplaceText(old_text="a", new_text="x"), "stands 3 times"),
            (ReplaceText(old_text="a", new_text="x"), "(lines [1, 3])"),
            (InsertText(new_text="x", after_line=4), "use 0 to 3, or -1"),
            (InsertText(new_text="x", after_line=-2), "`insert_line` is -2"),
            (InsertText(new_text="x" * 2_000), "more than its `limit` of 2000"),
        ],
    )
    def test_an_edit_that_cannot_be_tells_the_model_what_to_do(self, edit: Any, words: str) -> None:
        past = fact(BlockCreated, block=human(value="a\nb\naa"))
        given(Block, BLOCK, past).when(lambda block: block.edit(edit, CAUSE, at=NOW)).then_refused(
            UNPROCESSABLE, words
        )

    @pytest.mark.parametrize(
        ("value", "changes", "after"),
        [
            ("a\nb\nc", [lines("b", "x\ny")], "a\nx\ny\nc"),
            ("a\nb\nc", [lines("a", "x"), lines("c", "y")], "x\nb\ny"),
            ("a\nb\nc", [lines("b", None)], "a\nc"),
            ("a", [lines(None, "b")], "a\nb"),
            ("", [lines(None, "b")], "b"),
            ("a < b\nx <i>", [lines("x &lt;i>", "y &lt;b>")], "a < b\ny <b>"),
            ("I like tea\ntea", [lines("tea", "coffee")], "I like tea\ncoffee"),
        ],
    )
    def test_a_patch_replaces_whole_lines(self, value: str, changes: Any, after: str) -> None:
        given(Block, BLOCK, fact(BlockCreated, block=human(value=value))).when(
            lambda block: block.patch(changes, CAUSE, at=NOW)
        ).then(fact(BlockChanged, changes={"value": after}, cause=CAUSE))

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ([lines("b", "x"), lines("z", "x")], "lines of change 2 do not stand"),
            ([lines("a", "x")], "lines of change 1 stand 2 times"),
            ([lines("aa", "x")], "do not stand"),
            ([lines(None, "x" * 2_000)], "more than its `limit` of 2000"),
        ],
    )
    def test_a_patch_is_applied_as_a_whole_or_not_at_all(self, changes: Any, words: str) -> None:
        past = fact(BlockCreated, block=human(value="a\nb\na"))
        given(Block, BLOCK, past).when(
            lambda block: block.patch(changes, CAUSE, at=NOW)
        ).then_refused(UNPROCESSABLE, words)

    def test_a_tool_renames_the_block_that_it_means(self) -> None:
        command = RenameBlock(
            block_id=BLOCK, old_label="human", label="ada", description="Who", cause=CAUSE
        )
        given(Block, BLOCK, CREATED).when(lambda block: block.rename(command, at=NOW)).then(
            fact(BlockChanged, changes={"label": "ada", "description": "Who"}, cause=CAUSE)
        )
        other = command.model_copy(update={"old_label": "persona"})
        given(Block, BLOCK, CREATED).when(lambda block: block.rename(other, at=NOW)).then_refused(
            UNPROCESSABLE, "not labelled 'persona', but 'human'"
        )
        past = fact(BlockCreated, block=human(read_only=True))
        given(Block, BLOCK, past).when(lambda block: block.rename(command, at=NOW)).then_refused(
            UNPROCESSABLE, "'human' is read-only"
        )

    def test_replacing_a_text_by_itself_is_not_an_event(self) -> None:
        edit = ReplaceText(old_text="Ada", new_text="Ada")
        given(Block, BLOCK, CREATED).when(
            lambda block: block.edit(edit, CAUSE, at=NOW)
        ).then_nothing()


def test_a_block_stops_existing_once() -> None:
    past = given(Block, BLOCK, CREATED)
    past.when(lambda block: block.delete(at=NOW)).then(DELETED)
    past.when(lambda block: block.delete(at=NOW)).then_refused(NOT_FOUND, BLOCK)


class TestSize:
    """A value may have as many characters as its limit says; a block as many bytes as ours does."""

    LARGE = "x" * (BLOCK_BYTES_MAX - 2_000)

    def test_a_block_that_is_too_large_does_not_begin(self) -> None:
        block = HUMAN.model_copy(update={"value": "x" * BLOCK_BYTES_MAX, "limit": 10**9})
        given(Block, BLOCK).when(lambda aggregate: aggregate.create(block, at=NOW)).then_refused(
            UNPROCESSABLE, "shorten `value`"
        )

    def test_a_tool_cannot_make_a_block_grow_beyond_it(self) -> None:
        past = given(Block, BLOCK, fact(BlockCreated, block=self.block(self.LARGE)))
        edit = InsertText(new_text="y" * 3_000)
        past.when(lambda block: block.edit(edit, CAUSE, at=NOW)).then_refused(
            UNPROCESSABLE, f"A block may have at most {BLOCK_BYTES_MAX} bytes"
        )

    def test_a_block_that_was_too_large_before_may_become_smaller_and_no_larger(self) -> None:
        past = given(Block, BLOCK, fact(BlockCreated, block=self.block("x" * 2 * BLOCK_BYTES_MAX)))
        smaller = "x" * (2 * BLOCK_BYTES_MAX - 1)
        past.when(lambda block: block.update({"value": smaller}, at=NOW)).then(
            fact(BlockChanged, changes={"value": smaller})
        )
        past.when(lambda block: block.update({"value": smaller + "xxx"}, at=NOW)).then_refused(
            UNPROCESSABLE, "shorten `value`"
        )

    def test_what_counts_is_the_json_and_not_what_was_sent(self) -> None:
        """1e15 is 4 characters, and 18 when it is written again."""
        past = given(Block, BLOCK, CREATED)
        numbers = [1e15] * (BLOCK_BYTES_MAX // 18)
        past.when(lambda block: block.update({"metadata": {"n": numbers}}, at=NOW)).then_refused(
            UNPROCESSABLE, "shorten `metadata`"
        )

    def block(self, value: str) -> BlockState:
        return HUMAN.model_copy(update={"value": value, "limit": 10**9})


class TestRows:
    def test_a_new_block_is_one_row(self) -> None:
        rows = RowWrites()
        project(CREATED.at(BLOCK), "org-1", rows)
        assert rows.upserts == {
            BLOCKS: {
                (BLOCK,): {
                    "id": BLOCK,
                    "org": "org-1",
                    "created_at": NOW.isoformat(),
                    "version": 1,
                    "label": "human",
                    "changed_by": None,
                    **documents(HUMAN),
                }
            }
        }
        assert (rows.patches, rows.deletions) == ({}, [])

    @pytest.mark.parametrize(
        ("changes", "columns"),
        [
            ({"value": "x"}, {"fields": {"value": "x"}}),
            ({"label": "pet"}, {"fields": {"label": "pet"}, "label": "pet"}),
            ({"metadata": {"a": 1e308}}, {"fields": {}, "metadata": {"a": 1e308}}),
            ({"metadata": None}, {"fields": {}, "metadata": None}),
        ],
    )
    def test_a_change_patches_the_doc_the_version_the_label_and_the_metadata(
        self, changes: dict[str, Any], columns: dict[str, Any]
    ) -> None:
        rows = RowWrites()
        project(fact(BlockChanged, changes=changes).at(BLOCK, 7, LATER), "org-1", rows)
        known = {"id": BLOCK, "version": 7, "changed_by": None}
        assert rows.patches == {BLOCKS: {(BLOCK,): {**known, **columns}}}
        assert (rows.upserts, rows.deletions) == ({}, [])

    def test_the_row_says_which_agent_changed_a_block_last(self) -> None:
        rows = RowWrites()
        cause = Cause(agent_id="agent-1", run_id="run-1", tool_call_id="call-1", tool="memory")
        changed = fact(BlockChanged, changes={"value": "x"}, cause=cause)
        for event in (CREATED.at(BLOCK), changed.at(BLOCK, 2)):
            project(event, "org-1", rows)
        [row] = rows.upserts[BLOCKS].values()
        assert row["changed_by"] == "agent-1"
        project(fact(BlockChanged, changes={"value": "y"}).at(BLOCK, 3), "org-1", rows)
        [row] = rows.upserts[BLOCKS].values()
        assert row["changed_by"] is None, "a client is no agent"

    def test_a_deleted_block_leaves_no_row(self) -> None:
        rows = RowWrites()
        project(DELETED.at(BLOCK, 8), "org-1", rows)
        assert rows.deletions == [Deletion(BLOCKS, "id", BLOCK)]
        assert (rows.upserts, rows.patches) == ({}, {})

    def test_the_row_after_any_change_is_the_block_as_it_is(self) -> None:
        past = given(Block, BLOCK, CREATED)
        decided = past.when(
            lambda block: block.update({"limit": "99", "metadata": {"a": 1}, "tags": ["b"]}, at=NOW)
        )
        rows = RowWrites()
        for event in [CREATED.at(BLOCK), *decided.events]:
            project(event, "org-1", rows)
        [row] = rows.upserts[BLOCKS].values()
        assert past.aggregate.present is not None
        assert {**row, **documents(past.aggregate.present)} == row


def documents(block: BlockState) -> dict[str, Any]:
    """The columns that a block is served from."""
    state = block_state(block)
    return {"metadata": state.pop("metadata"), "fields": state}

"""How two documents of an agent differ."""

from __future__ import annotations

from typing import Any

from services.api.v1.agent_comparison import (
    LISTED_MAX,
    configuration_changes,
    context_changes,
    part_changes,
)

NAMES = ("before", "after")


def block(name: str, value: str, **fields: Any) -> dict[str, Any]:
    return {"id": f"block-{name}", "label": name, "value": value, "limit": 10, **fields}


def test_fields_that_differ_have_both_values_and_stamps_are_none() -> None:
    before = {"name": "Ada", "system": "Be kind", "updated_at": "1", "blocks": [1]}
    after = {"name": "Ada", "system": "Be short", "updated_at": "2", "blocks": [2], "hidden": True}

    assert configuration_changes(before, after) == {
        "hidden": {"before": None, "after": True},
        "system": {"before": "Be kind", "after": "Be short"},
    }


def test_blocks_that_came_went_and_changed_line_by_line() -> None:
    before = [block("human", "one\ntwo"), block("gone", "x"), block("same", "y")]
    after = [block("human", "one\n2", limit=20), block("same", "y"), block("new", "z")]

    changes = part_changes(before, after, NAMES, label="label")

    assert changes["added"] == [{"id": "block-new", "label": "new", "value": "z"}]
    assert changes["removed"] == [{"id": "block-gone", "label": "gone", "value": "x"}]
    [changed] = changes["changed"]
    assert changed["fields"] == {"limit": {"before": 10, "after": 20}}
    assert changed["value_diff"].split("\n")[:2] == ["--- before", "+++ after"]
    assert changed["value_diff"].split("\n")[-3:] == [" one", "-two", "+2"]


def test_the_source_of_a_tool_is_compared_line_by_line() -> None:
    tool = {"id": "tool-1", "name": "roll", "source_code": "a\nb", "description": None}

    [changed] = part_changes([tool], [{**tool, "source_code": "a\nc"}], NAMES, label="name")[
        "changed"
    ]

    assert changed["name"] == "roll"
    assert changed["fields"] == {}
    assert "+c" in changed["source_code_diff"]
    assert part_changes([tool], [tool], NAMES, label="name")["changed"] == []


def test_long_lists_are_cut_and_counted() -> None:
    many = [f"message-{number}" for number in range(LISTED_MAX + 5)]

    changes = context_changes(many, many[-1:])

    assert (changes["before"], changes["after"]) == (LISTED_MAX + 5, 1)
    assert changes["added"] == {"total": 0, "items": []}
    assert changes["removed"] == {"total": LISTED_MAX + 4, "items": many[:LISTED_MAX]}

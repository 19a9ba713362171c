"""`python -m deploy.agent_forms`: write docs/agent-forms.md from the table of an agent's fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from libs.agent_document.agent_fields import (
    AGENT_FIELDS,
    BELONGINGS,
    BLOCK_FIELDS,
    FOLDER_FIELDS,
    FORMS,
    GROUP_FIELDS,
    SCHEDULE_FIELDS,
    TOOL_FIELDS,
    DocumentField,
    Form,
    LeftOut,
    left_out,
)

PAGE = Path(__file__).parent.parent / "docs" / "agent-forms.md"
TITLES = {
    "create": "`POST /v1/agents`",
    "update": "`PATCH /v1/agents/{id}`",
    "toml": "TOML file",
    "agent_file": "agent file",
    "template": "template",
    "letta_database": "database of Letta",
    "lines": "whole export",
}
INTRODUCTION = """# The forms of an agent

This page is generated (`python -m deploy.agent_forms`) from `libs/agent_document`: do not edit it.

An agent is written in several forms: requests, [TOML files](agent-toml.md), [agent
files](exports.md#agent-files-of-letta), [templates](templates.md) and the database of [a Letta
server](moving-in.md). Each row says what a form calls a field: `yes` is the same name, and `no`
has a reason in the list below the table. [Whole exports](exports.md), forks and agents [as they
were](history.md#an-agent-as-it-was) have all fields of agents, blocks, tools, groups and schedules.
"""
TABLES: dict[str, tuple[Iterable[DocumentField], tuple[Form, ...]]] = {
    "The agent itself": (AGENT_FIELDS, FORMS[:-1]),
    "What belongs to it": (BELONGINGS, FORMS),
    "Memory blocks": (BLOCK_FIELDS, ("create", "toml", "agent_file", "template", "letta_database")),
    "Tools that clients made": (TOOL_FIELDS, ("toml", "agent_file", "letta_database")),
    "Folders": (FOLDER_FIELDS, ("toml", "agent_file", "letta_database", "lines")),
    "Groups": (GROUP_FIELDS, ("toml", "agent_file", "template", "letta_database")),
    "Schedules": (SCHEDULE_FIELDS, ("toml",)),
}


def cell(field: DocumentField, form: Form) -> str:
    """The name of a field in a form."""
    found = field.form(form)
    if isinstance(found, LeftOut):
        return "no"
    return "yes" if found == field.name else f"`{found}`"


def section(heading: str, table: Iterable[DocumentField], forms: tuple[Form, ...]) -> Iterator[str]:
    """The lines about one table: its fields, and what forms leave out."""
    yield from ("", f"## {heading}", "")
    yield f"| field | {' | '.join(TITLES[form] for form in forms)} |"
    yield "|---" * (1 + len(forms)) + "|"
    for field in table:
        yield f"| `{field.name}` | {' | '.join(cell(field, form) for form in forms)} |"
    yield ""
    for form in forms:
        reasons = left_out(table, form)
        for reason in dict.fromkeys(reasons.values()):
            names = ", ".join(f"`{name}`" for name in reasons if reasons[name] == reason)
            yield f"* {TITLES[form]}: no {names}: {reason}."


def page_text() -> str:
    """The text of the whole page."""
    lines = [line for heading, chosen in TABLES.items() for line in section(heading, *chosen)]
    return INTRODUCTION + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page_text())

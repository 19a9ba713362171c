"""The table has every field of an agent and of what belongs to it, and its page is current."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from deploy.agent_forms import PAGE, TABLES, TITLES, page_text
from libs.agent_document.agent_fields import (
    AGENT_FIELDS,
    BELONGINGS,
    BLOCK_FIELDS,
    FOLDER_FIELDS,
    FORMS,
    GROUP_FIELDS,
    SCHEDULE_FIELDS,
    TOOL_FIELDS,
    left_out,
)
from libs.contracts.agent.agents import AgentCreated
from libs.contracts.agent_file import DefinitionKind
from libs.contracts.bus_messages import LOG_COLUMNS
from libs.contracts.groups.groups import GroupConfig
from libs.contracts.letta.agent_state import AgentConfig, Relationships
from libs.contracts.letta.blocks import BlockState
from libs.contracts.letta.folders import FolderState
from libs.contracts.letta.tools import ToolState
from libs.contracts.scheduler.schedule_config import ScheduleConfig
from tests.unit.agent_document.whole_agent import CONFIG, whole_document

OWN = {field.name for field in AGENT_FIELDS}
BELONGING = {field.name for field in BELONGINGS}
# What the document of an agent says of other fields once more, in other words.
SAID_AGAIN = {
    "model": "llm_config",
    "model_settings": "llm_config",
    "embedding": "embedding_config",
    "memory": "blocks",
    "identity_ids": "identities",
    "multi_agent_group": "managed_group",
    "tool_exec_environment_variables": "secrets",
}
# Of an organisation or of a project, and not of its agents.
NOT_OF_AGENTS = {"project", "sandbox_config"}


def test_every_field_of_the_state_of_an_agent_stands_in_the_table() -> None:
    assert {*AgentConfig.model_fields, "tags"} == OWN
    assert {field.name for field in fields(Relationships)} - {"tags"} <= BELONGING
    assert {*whole_document()} - OWN - BELONGING == {*SAID_AGAIN}
    assert {*SAID_AGAIN.values()} <= OWN | BELONGING
    event = {*AgentCreated.model_fields} - {*LOG_COLUMNS, "config", "tags"}
    assert event == {"tools", "tool_ids", "block_ids", "own_block_ids"}


def test_every_kind_of_definition_belongs_to_agents_or_to_their_organisation() -> None:
    lines = {str(field.form("lines")) for field in BELONGINGS}
    words = {word for line in lines for word in line.split(", ")}
    assert {*get_args(DefinitionKind)} - words - NOT_OF_AGENTS == {"mcp_server"}


@pytest.mark.parametrize(
    ("table", "state"),
    [
        (BLOCK_FIELDS, BlockState),
        (TOOL_FIELDS, ToolState),
        (FOLDER_FIELDS, FolderState),
        (GROUP_FIELDS, GroupConfig),
        (SCHEDULE_FIELDS, ScheduleConfig),
    ],
)
def test_every_field_of_what_belongs_to_an_agent_stands_in_the_table(
    table: Any, state: type[BaseModel]
) -> None:
    assert [field.name for field in table] == [*state.model_fields]


def test_no_value_of_the_whole_agent_is_a_default() -> None:
    for name, field in AgentConfig.model_fields.items():
        is_default = getattr(CONFIG, name) == field.get_default(call_default_factory=True)
        assert not is_default or name == "agent_type", name


def test_the_page_is_current_and_has_a_reason_for_everything_that_a_form_leaves_out() -> None:
    wanted = "run python -m deploy.agent_forms, and look at the change"
    assert PAGE.read_text() == page_text(), wanted
    assert [*TITLES] == [*FORMS]
    for table, forms in TABLES.values():
        for form in forms:
            for name, reason in left_out(table, form).items():
                line = f"* {TITLES[form]}: no "
                found = [each for each in PAGE.read_text().splitlines() if each.startswith(line)]
                assert any(f"`{name}`" in each and f": {reason}." in each for each in found), name

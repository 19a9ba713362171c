"""Groups, folders, schedules, rules and permissions have their fields in each form, as the table
says."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from deploy.letta_migration.agents import fields_of
from libs.agent_document.agent_fields import (
    FOLDER_FIELDS,
    GROUP_FIELDS,
    SCHEDULE_FIELDS,
    form_names,
    left_out,
    same_fields,
)
from libs.agent_toml import from_server, schedule_request
from libs.agent_toml.schedule_tables import GroupMembership, Schedule
from libs.agent_toml.tool_tables import Permissions
from libs.agent_toml.tool_tables import ToolRule as TomlRule
from libs.contracts.agent.conversations import Message
from libs.contracts.groups.groups import GroupConfig
from libs.contracts.letta.folders import FolderState
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.letta.tool_rules import ToolRule
from libs.contracts.tools.tool_permissions import AllowList
from services.api.adapters.agents.agent_lines import FOLDER_FIELDS as FOLDER_FIELDS_OF_LINES
from services.api.v1.agent_file.agent_file_document import (
    Export,
    ExportedAgent,
    agent_file_document,
)
from services.api.v1.agent_file.agent_file_reader import read_file
from services.api.v1.agent_file.exported_things import MANAGER_FIELDS
from services.api.v1.agent_file.import_options import NOTHING_PRESENT
from services.api.v1.template_files import content_of_file, read_content
from tests.unit.agent_document.whole_agent import CONFIG, EMBEDDING, NOW, UUID, whole_document
from tests.unit.api.agent_files.small_agent_files import definitions, lines_of, messages, options

MEMBER = f"agent-22222222-{UUID[9:]}"
GROUP: dict[str, Any] = {
    "name": "team",
    "description": "Writes.",
    "agent_ids": [MEMBER],
    "manager_agent_id": CONFIG.id,
    "termination_token": "OVER",
    "max_turns": 7,
    "hops_max": 9,
    "sleeptime_agent_frequency": 3,
    "max_message_buffer_length": 30,
    "min_message_buffer_length": 20,
    "shared_block_ids": [f"block-{UUID}"],
    "shared_state_mode": "last_write_wins",
    "hidden": True,
}
FOLDER: dict[str, Any] = {
    "id": f"source-{UUID}",
    "name": "notes",
    "description": "What was noted.",
    "instructions": "Read it.",
    "metadata": {"a": 1},
    "embedding_config": EmbeddingConfig.model_validate(EMBEDDING).model_dump(mode="json"),
}
KINDS = ("round_robin", "dynamic", "sleeptime", "voice_sleeptime")


def found_over_kinds(found: dict[str, dict[str, Any]], name: str) -> list[Any]:
    """What the groups of all kinds have for a field, where they have something."""
    return [group[name] for group in found.values() if group.get(name) not in (None, [], "")]


def test_toml_files_have_each_field_of_groups() -> None:
    found: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        group = {**GROUP, "manager_type": kind}
        [written] = from_server(whole_document(), groups=[group]).groups
        assert written.manager_type == kind
        assert written.role == "manager"
        found[kind] = written.model_dump()
    for name in same_fields(GROUP_FIELDS, "toml"):
        if name != "manager_type":
            assert {*found_over_kinds(found, name)} == {GROUP[name]}, name
    assert not {*left_out(GROUP_FIELDS, "toml")} & GroupMembership.model_fields.keys()


async def group_file(kind: str) -> Any:
    """An agent file of an agent that manages a group with one other member."""
    group = {**GROUP, "id": f"group-{UUID}", "manager_type": kind}
    manager = {**whole_document(), "managed_group": group}
    member = {**whole_document(), "id": MEMBER, "managed_group": None}
    agents = [ExportedAgent(document=manager), ExportedAgent(document=member)]
    document = await agent_file_document(Export(agents=agents, at=NOW, folders=[FOLDER]))
    return json.loads(json.dumps(document))


async def test_agent_files_have_each_field_of_groups() -> None:
    found: dict[str, dict[str, Any]] = {}
    for kind in MANAGER_FIELDS:
        [group] = definitions(lines_of(await group_file(kind)), "group")
        config: Any = group.value["config"]
        assert (config["manager_type"], len(config["agent_ids"])) == (kind, 1)
        assert len(config["shared_block_ids"]) == 1
        found[kind] = config
    others = {"manager_type", "manager_agent_id", "agent_ids", "shared_block_ids"}
    for name in form_names(GROUP_FIELDS, "agent_file").keys() - others:
        assert {*found_over_kinds(found, name)} == {GROUP[name]}, name
    assert found_over_kinds(found, "manager_agent_id")
    for name in left_out(GROUP_FIELDS, "agent_file"):
        default = GroupConfig.model_fields[name].get_default(call_default_factory=True)
        assert all(config[name] == default for config in found.values()), name


async def test_templates_have_each_field_of_groups() -> None:
    found: dict[str, dict[str, Any]] = {}
    for kind in KINDS[1:]:  # without a manager the two are no group of all agents
        written = json.dumps(await group_file(kind)).encode()
        file = read_file(written)
        taken = read_content(file, options(tools_accepted=True), NOTHING_PRESENT)
        content = content_of_file(taken, file, {})
        assert content.type == kind
        assert content.group is not None
        found[kind] = dict(content.group.settings)
    for name in same_fields(GROUP_FIELDS, "template"):
        assert {*found_over_kinds(found, name)} == {GROUP[name]}, name
    for settings in found.values():
        assert not {*left_out(GROUP_FIELDS, "template")} & settings.keys()


def test_rows_of_a_letta_server_have_each_field_of_groups_and_folders() -> None:
    for table in (GROUP_FIELDS, FOLDER_FIELDS):
        columns = form_names(table, "letta_database")
        row = {column: f"of {column}" for column in columns.values() if "." not in column}
        found = fields_of(row, table)
        assert found == {
            name: f"of {column}" for name, column in columns.items() if "." not in column
        }


async def test_agent_files_and_whole_exports_have_each_field_of_folders() -> None:
    agent = ExportedAgent(document=whole_document())
    document = await agent_file_document(Export(agents=[agent], at=NOW, folders=[FOLDER]))
    [found] = definitions(lines_of(json.loads(json.dumps(document))), "folder")
    for name in form_names(FOLDER_FIELDS, "agent_file"):
        assert found.value[name] == FOLDER[name], name
    assert {*FOLDER_FIELDS_OF_LINES, "id"} == {*form_names(FOLDER_FIELDS, "lines")}
    assert {*left_out(FOLDER_FIELDS, "lines")} == {*FolderState.model_fields} - {*FOLDER}


@pytest.mark.parametrize("is_once", [False, True])
def test_toml_files_have_each_field_of_schedules(is_once: bool) -> None:
    kept = {
        "name": "morning",
        "timezone": "Europe/Berlin",
        "conversation_id": "new",
        "missed": "all",
        "missed_slots_max": 5,
        "if_active": "skip",
        "retries_max": 1,
    }
    when = (
        {"schedule_type": "one_time", "scheduled_time": "2030-01-31T09:00:00+01:00"}
        if is_once
        else {"schedule_type": "recurring", "recurrence_rule": "0 9 * * *"}
    )
    action = {"type": "tool", "tool_name": "roll", "arguments": {"sides": 6}}
    document = {"id": "schedule-1", **kept, **when, "action": action}
    [schedule] = from_server(whole_document(), schedules=[document]).schedules
    assert schedule_request(schedule) == {**kept, **when, "action": action}
    assert {*same_fields(SCHEDULE_FIELDS, "toml")} == {*kept}
    assert not {*left_out(SCHEDULE_FIELDS, "toml")} & Schedule.model_fields.keys()


def test_toml_files_have_each_field_of_tool_rules_and_permissions() -> None:
    rules: tuple[type[BaseModel], ...] = get_args(get_args(ToolRule.__value__)[0])
    assert len(rules) >= 9
    for rule in rules:
        assert {*rule.model_fields} <= {*TomlRule.model_fields}, rule.__name__
    assert {*AllowList.model_fields} == {*Permissions.model_fields}


# What agent files, whose form is that of the retired server, do not have of a message.
NOT_IN_FILES = {
    "sender_id": "it names an agent of the server that wrote the file",
    "group_id": "groups have other ids where the file is imported",
    "reasoning_field": "the next model may be another",
    "summary": "it is written as a summary, and read as what its text says",
    "request_id": "answers follow what they answer",
}


async def test_agent_files_have_each_field_of_messages() -> None:
    common: dict[str, Any] = {"created_at": NOW, "otid": "otid-1", "name": "bob"}
    calls = [{"id": "call-1", "name": "roll", "arguments": "{}"}]
    sent = [
        Message(id="message-0", role="system", content="Be kind.", **{**common, "name": None}),
        Message(id="message-1", role="user", content="hi", **common),
        Message(
            id="message-2", role="assistant", reasoning="Hm.", inner_thoughts=True,
            tool_calls=calls, **common,
        ),
        Message(
            id="message-3", role="tool", content="4", tool_call_id="call-1", tool_status="error",
            stdout=["out"], stderr=["err"], **common,
        ),
        Message(
            id="message-4", role="assistant", content="A four.",
            reasoning_parts=[{"text": "So.", "signature": "sig"}], **common,
        ),
    ]  # fmt: skip
    agent = ExportedAgent(
        document=whole_document(), messages=sent, in_context=[each.id for each in sent]
    )
    document = await agent_file_document(Export(agents=[agent], at=NOW, folders=[FOLDER]))
    read = messages(lines_of(json.loads(json.dumps(document))))
    seen = set()
    for ours, theirs in zip(sent, read, strict=True):
        stored = ours.model_dump(mode="json", exclude={"id"})
        default = Message(id="", role=ours.role, created_at=NOW).model_dump(mode="json")
        for name, value in stored.items():
            assert theirs.get(name, default.get(name)) == value, (ours.id, name)
            if value not in (default.get(name), None):
                seen.add(name)
    assert {*Message.model_fields} - seen - {"id", "role", "created_at"} == {
        *NOT_IN_FILES, "hidden",
    }  # fmt: skip

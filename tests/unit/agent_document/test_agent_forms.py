"""Each form of an agent has every field that the table says it has, and no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import from_json

from deploy.letta_migration.agents import agent_config
from deploy.letta_migration.definitions import tool_state as tool_of_row
from deploy.letta_migration.memory import block_of
from libs.agent_document.agent_fields import (
    AGENT_FIELDS,
    BELONGINGS,
    BLOCK_FIELDS,
    TOOL_FIELDS,
    Form,
    LeftOut,
    form_names,
    left_out,
)
from libs.agent_toml import AgentDefinition, from_server, read, to_create_request, write
from libs.agent_toml.definition import MemoryBlock
from libs.agent_toml.tool_tables import Tool
from libs.contracts.agent.agents import AgentCreated
from libs.contracts.agent_file import LINE, HistoryPart
from libs.contracts.api.templates import TemplateBlock
from libs.contracts.bus_messages import Rejected
from libs.contracts.letta.agent_requests import CreateAgent, UpdateAgent
from libs.contracts.letta.agent_state import AgentConfig
from services.agent.domain.agents.agent_configuration import updated_design
from services.api.adapters.agents.agent_lines import (
    NOT_A_PART,
    AgentLines,
    WantedAgent,
    lines_of_history,
)
from services.api.adapters.agents.agent_log import LoggedEvent
from services.api.v1.agent_file.agent_file_document import (
    Export,
    ExportedAgent,
    agent_file_document,
)
from services.api.v1.template_snapshots import content_of_agent
from tests.contract.examples import EVENTS
from tests.unit.agent_document.whole_agent import (
    BLOCK,
    CONFIG,
    EMBEDDING_HANDLE,
    FACTS,
    GROUP,
    HANDLE,
    LLM,
    MESSAGE,
    NOW,
    TOOL,
    UUID,
    design_of,
    shown_after,
    whole_document,
    whole_values,
)
from tests.unit.api.agent_files.small_agent_files import definitions, lines_of, options, payload

WANTED = whole_values(AGENT_FIELDS, CONFIG)


def assert_carried(form: Form, found: dict[str, Any], *, without: tuple[str, ...] = ()) -> None:
    """What a form gives back is the agent as it was, in all fields that the form has."""
    for name in form_names(AGENT_FIELDS, form):
        if name not in without:
            assert found[name] == WANTED[name], f"{form} loses `{name}`"


def request_fields(model: type[BaseModel], form: Form) -> dict[str, Any]:
    """A request that says all fields of the form."""
    assert left_out(AGENT_FIELDS, form).keys() & model.model_fields.keys() <= {"message_ids"}
    return {name: WANTED[name] for name in form_names(AGENT_FIELDS, form)}


def test_requests_to_create_an_agent_have_each_field() -> None:
    fields = request_fields(CreateAgent, "create")
    design = design_of({**fields, "include_base_tools": False})
    assert_carried("create", shown_after(design))


def test_requests_to_change_an_agent_have_each_field_or_say_why_not() -> None:
    plain = design_of({"name": "Plain", "llm_config": {**LLM, "temperature": 0.5}})
    fields = request_fields(UpdateAgent, "update")
    changed = updated_design(plain, UpdateAgent.model_validate(fields), FACTS)
    assert not isinstance(changed, Rejected), changed
    assert_carried("update", shown_after(changed[1]))
    for name in left_out(AGENT_FIELDS, "update").keys() & UpdateAgent.model_fields.keys():
        refused = updated_design(plain, UpdateAgent.model_validate({name: WANTED[name]}), FACTS)
        assert isinstance(refused, Rejected)
        assert refused.reason == f"`{name}`: {left_out(AGENT_FIELDS, 'update')[name]}"


@pytest.mark.parametrize("name", form_names(AGENT_FIELDS, "update"))
def test_null_in_a_request_removes_a_value_or_keeps_it(name: str) -> None:
    fields = {each: WANTED[each] for each in form_names(AGENT_FIELDS, "create")}
    whole = design_of({**fields, "include_base_tools": False})
    changed = updated_design(whole, UpdateAgent.model_validate({name: None}), FACTS)
    assert not isinstance(changed, Rejected), changed
    [field] = (field for field in AGENT_FIELDS if field.name == name)
    default = AgentConfig.model_fields[name].default if name in AgentConfig.model_fields else ()
    cleared = field.null_clears and default is None
    assert shown_after(changed[1])[name] == (None if cleared else shown_after(whole)[name])


def written_toml() -> AgentDefinition:
    """The agent as it is read from a TOML file that was written of it."""
    servers = [{"server_name": "exa", "mcp_server_type": "stdio", "command": "npx"}]
    schedule = {"id": "s1", "message": "Wake up.", "recurrence_rule": "0 9 * * *"}
    definition = from_server(
        whole_document(),
        schedules=[schedule],
        groups=[GROUP],
        permissions={"tools": ["roll"]},
        mcp_servers=servers,
    )
    reading = read(write(definition), rules=None)
    assert reading.definition is not None, reading.errors
    return reading.definition


def test_toml_files_have_each_field() -> None:
    definition = written_toml()
    body = to_create_request(definition)
    made = shown_after(design_of({**body, "memory_blocks": None}))
    assert_carried("toml", made, without=("llm_config", "embedding_config"))
    for name in ("handle", "context_window", "temperature", "max_tokens", "response_format"):
        assert made["llm_config"][name] == WANTED["llm_config"][name]
    assert (body["model"], body["embedding"]) == (HANDLE, EMBEDDING_HANDLE)
    assert not {*left_out(AGENT_FIELDS, "toml")} & AgentDefinition.model_fields.keys()
    for field in BELONGINGS:
        there = field.form("toml")
        for key in () if isinstance(there, LeftOut) else there.split(", "):
            if key != "tools":  # of the server; the agent's tool is one of its own source
                assert getattr(definition, key) or (field.name, key) == ("secrets", "secrets")
    assert definition.secrets == {"KEY": "${KEY}"}


@pytest.mark.parametrize(("table", "model"), [(BLOCK_FIELDS, MemoryBlock), (TOOL_FIELDS, Tool)])
def test_toml_files_have_each_field_of_blocks_and_tools(table: Any, model: type[BaseModel]) -> None:
    definition = written_toml()
    [block], [tool] = definition.memory, definition.tool
    found, state = (block, BLOCK) if model is MemoryBlock else (tool, TOOL)
    for field in table:
        there = field.form("toml")
        if isinstance(there, LeftOut):
            assert field.name not in model.model_fields
        else:
            wanted = state.model_dump(mode="json")[field.name]
            wanted = ["numpy==2.0"] if field.name == "pip_requirements" else wanted
            assert getattr(found, there) == wanted, field.name


async def written_file() -> Any:
    """The agent as an agent file."""
    agent = ExportedAgent(
        document=whole_document(),
        messages=[MESSAGE],
        in_context=[MESSAGE.id],
        files=[{"file_id": "file-1", "folder_id": f"source-{UUID}", "name": "notes/a.txt"}],
    )
    things: dict[str, Any] = {
        "folders": [{"id": f"source-{UUID}", "name": "notes"}],
        "files": [
            {"id": "file-1", "source_id": f"source-{UUID}", "file_name": "a", "content": "x"}
        ],
        "mcp_servers": [{"id": "mcp_server-1", "server_name": "exa", "command": "npx"}],
    }
    document = await agent_file_document(Export(agents=[agent], at=NOW, **things))
    return json.loads(json.dumps(document))


async def test_agent_files_have_each_field() -> None:
    written = await written_file()
    left: list[Any] = []
    lines = lines_of(written, options(tools_accepted=True), left_out=left)
    created = payload(lines, "agent.created")
    found = {**created["config"], "tags": created["tags"]}
    assert_carried("agent_file", found, without=("message_ids",))
    [agent] = written["agents"]
    assert agent["in_context_message_ids"] == ["message-0"]
    for name in {*left_out(AGENT_FIELDS, "agent_file")} & agent.keys() - {"id"}:
        assert agent[name] is None, name
    for field in BELONGINGS:
        there = field.form("agent_file")
        if not isinstance(there, LeftOut):
            key = there.partition(",")[0]
            assert agent.get(key) or written.get(key), field.name


async def test_agent_files_have_each_field_of_blocks_and_tools() -> None:
    lines = lines_of(await written_file(), options(tools_accepted=True))
    block = payload(lines, "block.created")["block"]
    [tool] = definitions(lines, "tool")
    for table, found, state in (
        (BLOCK_FIELDS, block, BLOCK),
        (TOOL_FIELDS, tool.value["tool"], TOOL),
    ):
        for name, value in whole_values(table, state).items():
            assert isinstance(found, dict)
            is_there = name in form_names(table, "agent_file")
            assert (found[name] == value) == is_there, name


async def test_an_import_says_why_it_leaves_identities_out() -> None:
    written = await written_file()
    written["agents"][0]["identity_ids"] = [f"identity-{UUID}"]
    left: list[Any] = []
    lines_of(written, left_out=left)
    reason = left_out(BELONGINGS, "agent_file")["identities"]
    assert ("agents[0].identity_ids", reason) in [(each.entry, each.why) for each in left]


def test_templates_have_each_field() -> None:
    content = content_of_agent(whole_document(), {"KEY": "sealed:KEY"})
    [agent], [block] = content.agents, content.blocks
    made = design_of({**agent.fields, "name": agent.name, "include_base_tools": False})
    assert_carried("template", shown_after(made))
    assert agent.tool_variables == {"KEY": "sealed:KEY"}
    for name in left_out(AGENT_FIELDS, "template"):
        assert name not in agent.fields
    for field in BELONGINGS:
        there = str(field.form("template"))
        assert not there.endswith("_ids") or agent.fields[there]
    for field in BLOCK_FIELDS:
        if field.name in form_names(BLOCK_FIELDS, "template"):
            assert getattr(block, field.name) == getattr(BLOCK, field.name), field.name
        elif field.name != "entity_id":  # another one: that of the template
            assert field.name not in TemplateBlock.model_fields


def row_of(table: Any, state: BaseModel) -> dict[str, Any]:
    """A row of the database of a Letta server with all columns that the table names."""
    row: dict[str, Any] = {}
    for field in table:
        column = field.form("letta_database")
        if isinstance(column, str) and field.name in type(state).model_fields:
            row[column] = getattr(state, field.name)
            if isinstance(row[column], BaseModel):
                row[column] = row[column].model_dump(mode="json")
    return row


def test_rows_of_the_database_of_a_letta_server_have_each_field() -> None:
    found = agent_config(row_of(AGENT_FIELDS, CONFIG)).model_dump(mode="json")
    assert_carried("letta_database", found, without=("tags", "message_ids"))
    block = block_of(row_of(BLOCK_FIELDS, BLOCK), BLOCK.tags)
    unsaid = dict.fromkeys(left_out(BLOCK_FIELDS, "letta_database"))
    assert block == BLOCK.model_copy(update=unsaid)
    assert tool_of_row(row_of(TOOL_FIELDS, TOOL)) == TOOL


def test_lines_of_whole_exports_have_whole_events() -> None:
    created = AgentCreated(
        originator_id=CONFIG.id,
        originator_version=1,
        timestamp=NOW,
        config=CONFIG,
        tools=["roll"],
        tool_ids=[TOOL.id],
        tags=WANTED["tags"],
        block_ids=[BLOCK.id],
        own_block_ids=[BLOCK.id],
    )
    event = LoggedEvent(1, created.topic, 1, created.payload_json(), NOW.isoformat())
    [line] = lines_of_history("agent", CONFIG.id, [event])
    read_line = LINE.validate_json(line)
    assert isinstance(read_line, HistoryPart)
    [past] = read_line.history.events
    assert past.payload == from_json(event.payload)
    assert AgentCreated.model_validate({**dict(created), **past.payload}) == created


@pytest.mark.parametrize("is_fork", [False, True])
def test_no_event_is_left_out_but_those_that_are_listed(is_fork: bool) -> None:
    lines = AgentLines(None)  # type: ignore[arg-type]
    wanted = WantedAgent(org="org-1", agent_id=CONFIG.id, now=NOW, is_fork=is_fork)
    topics = {event.topic for event in EVENTS if event.service == "agent"}
    left = {
        topic for topic in topics if not lines.is_part(LoggedEvent(1, topic, 1, "{}", ""), wanted)
    }
    kept_by_forks = {"agent.secrets_replaced"} if is_fork else set()
    assert left == NOT_A_PART - kept_by_forks

"""The tools service on the twins: commands in, events, rows and replies out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.clock_and_ids import SystemClock
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.contracts.bus_messages import (
    CONFLICT,
    INVALID,
    NOT_FOUND,
    UNPROCESSABLE,
    Accepted,
    Command,
    Context,
    JsonObject,
    Rejected,
)
from libs.contracts.letta.tools import ToolState
from libs.contracts.state_size_limits import TOOL_BYTES_MAX
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS
from libs.contracts.tools.tool_runs import RunTool
from libs.contracts.tools.tools import CreateTool, DeleteTool, DeriveToolSchema, UpdateTool
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from services.tools.domain.organisation_tool_quota import (
    TOOLS_OF_ORG_BYTES_MAX,
    TOOLS_OF_ORG_MAX,
    ToolsOfOrg,
)
from services.tools.domain.tool_definition import why_it_cannot_run
from services.tools.engine.custom_tool_runner import program_of
from services.tools.handlers.tools import ToolHandlers
from services.tools.projections import project
from tests.unit.tools.counts import Counted, CountedRows

SOURCE = 'def {name}(sides: int):\n    """Roll.\n\n    Args:\n        sides: how many\n    """\n'
ORG, OTHER_ORG = "org-1", "org-2"


class Tools:
    """The service, asked over the bus."""

    def __init__(self) -> None:
        database = InMemoryDatabase(lambda: 0.0)
        self.schema = database.schema("tools")
        repository = Repository(InMemoryEventStore(database, "tools", "tools-1"), "tools", project)
        self.counted: Counted | CountedRows = Counted()
        handlers = ToolHandlers(SystemClock(), self, AggregateLocks())
        self.shell = CommandDispatcher(repository, handlers.table())
        self.bus = InMemoryBus(InMemoryNetwork())
        self.asked = 0

    async def tools_of(self, org: str) -> ToolsOfOrg:
        return await self.counted.tools_of(org)

    async def start(self) -> Tools:
        await self.bus.serve("tools", self.shell.answer)
        return self

    async def ask(self, command: Command, org: str = ORG) -> Accepted | Rejected:
        self.asked += 1
        return await self.bus.request(command, Context(f"m-{self.asked}", org, "user-1"))

    def rows(self) -> dict[Any, Any]:
        return {row["id"]: row for row in self.schema.rows("tools")}

    def names(self) -> list[tuple[Any, Any]]:
        return sorted((row["org"], row["name"]) for row in self.schema.rows("tools"))


def tool(tool_id: str, name: str, **fields: Any) -> ToolState:
    return ToolState(id=tool_id, source_code=SOURCE.format(name=name), **fields)


def create(tool_id: str, name: str, **fields: Any) -> CreateTool:
    return CreateTool(tool=tool(tool_id, name, **fields), given=["source_code", *fields])


def refusal(reply: Accepted | Rejected, code: str, *words: str) -> None:
    """The reply is a refusal with this code, whose reason has these words."""
    assert isinstance(reply, Rejected), reply
    assert reply.code == code
    assert all(word in reply.reason for word in words), reply.reason


async def test_a_tool_gets_name_schema_and_description_from_its_source() -> None:
    tools = await Tools().start()
    reply = await tools.ask(create("tool-1", "roll", tags=["dice"], metadata_={"mine": 1}))
    assert reply == Accepted(result={"tool_id": "tool-1"})
    row = tools.rows()["tool-1"]
    assert (row["name"], row["tags"], row["tool_type"]) == ("roll", ["dice"], "custom")
    assert row["json_schema"]["parameters"]["required"] == ["sides"]
    assert row["metadata_"] == {"mine": 1, "tool_hash": row["metadata_"]["tool_hash"]}
    assert (row["fields"]["description"], row["fields"]["created_by_id"]) == ("Roll.", "user-1")
    assert "json_schema" not in row["fields"]


async def test_a_changed_source_changes_name_schema_and_description_unless_they_are_given() -> None:
    tools = await Tools().start()
    await tools.ask(create("tool-1", "roll", description="Mine."))
    changed = SOURCE.format(name="throw").replace("Roll", "Throw").replace("sides", "dice")
    await tools.ask(UpdateTool(tool_id="tool-1", changes={"source_code": changed}))
    row = tools.rows()["tool-1"]
    assert (row["name"], row["fields"]["description"]) == ("throw", "Throw.")
    assert row["json_schema"]["parameters"]["required"] == ["dice"]

    schema = {**row["json_schema"], "description": "Given."}
    await tools.ask(UpdateTool(tool_id="tool-1", changes={"json_schema": schema}))
    assert tools.rows()["tool-1"]["fields"]["description"] == "Given."
    await tools.ask(UpdateTool(tool_id="tool-1", changes={"tags": ["x"]}))
    assert tools.rows()["tool-1"]["json_schema"] == schema
    arguments = {"properties": {"dice": {"type": "integer"}}, "required": ["dice"]}
    await tools.ask(UpdateTool(tool_id="tool-1", changes={"args_json_schema": arguments}))
    parameters = tools.rows()["tool-1"]["json_schema"]["parameters"]
    assert parameters == {**arguments, "type": "object"}


async def test_a_schema_of_another_name_renames_a_tool_whose_function_is_still_called() -> None:
    """As in V1."""
    tools = await Tools().start()
    await tools.ask(create("tool-1", "roll"))
    schema = {**tools.rows()["tool-1"]["json_schema"], "name": "other"}
    rename = UpdateTool(tool_id="tool-1", changes={"json_schema": schema})
    assert isinstance(await tools.ask(rename), Accepted)
    await tools.ask(UpdateTool(tool_id="tool-1", changes={"tags": ["x"]}))
    row = tools.rows()["tool-1"]
    assert (row["name"], row["json_schema"]["name"], row["tags"]) == ("other", "other", ["x"])
    assert tools.names() == [(ORG, "other")]
    command = RunTool(tool_run_id="tool_run-1", tool_id="tool-1", arguments={}, seconds_max=1)
    renamed = ToolState(id="tool-1", name="other", source_code=SOURCE.format(name="roll"))
    assert program_of(renamed, command, ORG, {}).function == "roll"
    for name, code in (("send_message", CONFLICT), ("a b", INVALID)):
        change = {"json_schema": {**schema, "name": name}}
        refusal(await tools.ask(UpdateTool(tool_id="tool-1", changes=change)), code)
    changed = UpdateTool(tool_id="tool-1", changes={"source_code": SOURCE.format(name="roll")})
    await tools.ask(changed)
    assert tools.names() == [(ORG, "roll")]


async def test_what_changes_nothing_is_no_event() -> None:
    tools = await Tools().start()
    await tools.ask(create("tool-1", "roll", tags=["dice"]))
    for changes in ({}, {"tags": ["dice"]}, {"source_code": SOURCE.format(name="roll")}):
        reply = await tools.ask(UpdateTool(tool_id="tool-1", changes=changes))
        assert isinstance(reply, Accepted)
    await tools.ask(UpdateTool(tool_id="tool-1", changes={"id": "tool-2", "no_field": 1}))
    assert len(tools.schema.streams["tool-1"]) == 1


async def test_what_cannot_be_a_tool_names_the_field_and_the_fix() -> None:
    tools = await Tools().start()
    good = {"name": "roll", "parameters": {"type": "object", "properties": {}}}
    for unfit, words in (
        (ToolState(id="tool-1"), "`source_code`: give"),
        (ToolState(id="tool-1", source_code="def x(:"), "`source_code`: invalid syntax"),
        (ToolState(id="tool-1", source_type="json", source_code="1"), "`source_code`: it has no"),
        (ToolState(id="tool-1", source_type="typescript"), "`json_schema`: give"),
        (tool("tool-1", "roll", json_schema={}), "`json_schema.name`"),
        (tool("tool-1", "roll", json_schema={**good, "name": "a b"}), "`json_schema.name`"),
        (tool("tool-1", "roll", json_schema={**good, "name": "other"}), "is 'roll'"),
        (tool("tool-1", "roll", json_schema={**good, "parameters": []}), "an object schema"),
        (tool("tool-1", "würfle"), "`json_schema.name`"),
    ):
        refusal(await tools.ask(CreateTool(tool=unfit)), INVALID, words)
    large = tool("tool-1", "roll", metadata_={"x": "x" * TOOL_BYTES_MAX})
    refusal(await tools.ask(CreateTool(tool=large)), UNPROCESSABLE, "`metadata_`")
    assert tools.schema.committed == []
    refusal(await tools.ask(DeriveToolSchema(asker="schema-1", source_code="1")), INVALID)
    shown = await tools.ask(DeriveToolSchema(asker="schema-1", source_code=SOURCE.format(name="a")))
    assert isinstance(shown, Accepted)
    assert (shown.result["name"], tools.schema.committed) == ("a", [])


METHOD = '''def remember(self: "Agent", text: str) -> str:
    """Remember.

    Args:
        text (str): what
    """
    return text
'''


@pytest.mark.parametrize("schema", [None, {"name": "remember", "parameters": {}}])
async def test_a_tool_written_as_a_method_is_refused_with_the_way_to_write_it_now(
    schema: JsonObject | None,
) -> None:
    tools = await Tools().start()
    old = ToolState(id="tool-1", source_code=METHOD, json_schema=schema)
    refusal(await tools.ask(CreateTool(tool=old)), INVALID, "takes `self`", 'agent_state: "Agent')
    now = METHOD.replace('self: "Agent", text: str', 'text: str, agent_state: "AgentState"')
    reply = await tools.ask(CreateTool(tool=old.model_copy(update={"source_code": now})))
    assert isinstance(reply, Accepted)


async def test_source_of_any_type_is_taken_and_runs_if_it_is_python() -> None:
    tools = await Tools().start()
    given = {"name": "plan", "parameters": {"type": "object", "properties": {}}}
    for number, unfit in enumerate(("{}", "", None, "steps: 1, 2", "x = 1")):
        schema = {**given, "name": f"plan{number}"}
        state = ToolState(
            id=f"tool-{number}", source_type="json", source_code=unfit, json_schema=schema
        )
        assert isinstance(await tools.ask(CreateTool(tool=state)), Accepted)
        assert "`source_type` is 'json'" in why_it_cannot_run(state)
    python = ToolState(id="tool-9", source_type="json", source_code=SOURCE.format(name="roll"))
    assert isinstance(await tools.ask(CreateTool(tool=python)), Accepted)
    assert (tools.rows()["tool-9"]["name"], why_it_cannot_run(python)) == ("roll", "")


async def test_a_schema_of_arguments_fits_the_function_or_is_refused() -> None:
    tools = await Tools().start()
    source = "def plan(steps, days=1):\n  pass"
    whole = {"properties": {"steps": {"type": "array"}, "days": {"type": "integer"}}}
    for properties, code, words in (
        ({**whole["properties"], "extra": {}}, source, "`extra`"),
        ({"days": {}}, source, "`steps`"),
        (whole["properties"], "def plan(): pass", "`steps`, `days`"),
        ([], source, "an object schema"),
    ):
        state = ToolState(
            id="tool-1", source_code=code, args_json_schema={"properties": properties}
        )
        refusal(await tools.ask(CreateTool(tool=state)), INVALID, "`args_json_schema`", words)
    for number, code in enumerate((source, "def plan2(everything): pass")):
        state = ToolState(id=f"tool-{number}", source_code=code, args_json_schema=whole)
        assert isinstance(await tools.ask(CreateTool(tool=state)), Accepted)


async def test_a_name_is_taken_until_its_tool_is_renamed_or_deleted() -> None:
    tools = await Tools().start()
    await tools.ask(create("tool-1", "roll"))
    assert await tools.ask(create("tool-2", "roll")) == Accepted(result={"tool_id": "tool-1"})
    rename = UpdateTool(tool_id="tool-1", changes={"source_code": SOURCE.format(name="throw")})
    assert isinstance(await tools.ask(rename), Accepted)
    assert isinstance(await tools.ask(create("tool-2", "roll")), Accepted)
    back = UpdateTool(tool_id="tool-1", changes={"source_code": SOURCE.format(name="roll")})
    refusal(await tools.ask(back), CONFLICT, "'roll' exists already")
    assert tools.rows()["tool-1"]["name"] == "throw"
    await tools.ask(DeleteTool(tool_id="tool-2"))
    assert isinstance(await tools.ask(back), Accepted)
    for command in (DeleteTool(tool_id="tool-2"), UpdateTool(tool_id="tool-2", changes={})):
        refusal(await tools.ask(command), NOT_FOUND, "tool-2")
    assert tools.names() == [(ORG, "roll")]


@pytest.mark.parametrize("name", sorted(SERVER_TOOLS))
async def test_a_name_of_the_server_is_no_clients(name: str) -> None:
    tools = await Tools().start()
    refusal(await tools.ask(create("tool-1", name)), CONFLICT, "comes with the server")
    await tools.ask(create("tool-1", "roll"))
    rename = UpdateTool(tool_id="tool-1", changes={"source_code": SOURCE.format(name=name)})
    refusal(await tools.ask(rename), CONFLICT, "comes with the server")


async def test_an_upsert_changes_what_is_given_and_keeps_the_rest_and_the_id() -> None:
    tools = await Tools().start()
    assert isinstance(await tools.ask(create("tool-1", "roll", tags=["a"])), Accepted)
    reply = await tools.ask(create("tool-2", "roll", return_char_limit=7))
    assert reply == Accepted(result={"tool_id": "tool-1"})
    [row] = tools.rows().values()
    assert (row["id"], row["tags"], row["fields"]["return_char_limit"]) == ("tool-1", ["a"], 7)


async def test_another_organisation_has_names_of_its_own_and_sees_no_tool() -> None:
    tools = await Tools().start()
    await tools.ask(create("tool-1", "roll"))
    refusal(await tools.ask(DeleteTool(tool_id="tool-1"), OTHER_ORG), NOT_FOUND)
    change = UpdateTool(tool_id="tool-1", changes={"tags": ["theirs"]})
    refusal(await tools.ask(change, OTHER_ORG), NOT_FOUND)
    assert isinstance(await tools.ask(create("tool-2", "roll"), OTHER_ORG), Accepted)
    reply = await tools.ask(create("tool-3", "roll"), OTHER_ORG)
    assert reply == Accepted(result={"tool_id": "tool-2"})
    assert tools.rows()["tool-1"]["tags"] == []
    assert tools.names() == [(ORG, "roll"), (OTHER_ORG, "roll")]


NAMES = st.sampled_from(["a", "b", "c"])
ASKED = st.lists(
    st.tuples(
        st.sampled_from(["create", "rename", "delete"]),
        NAMES,
        st.integers(0, 4),
        st.sampled_from([ORG, OTHER_ORG]),
    ),
    max_size=25,
)


@settings(max_examples=settings().max_examples * 3 // 2)
@given(ASKED)
async def test_after_any_history_each_name_is_one_tools(asked: list[Any]) -> None:
    tools, held = await Tools().start(), dict[tuple[str, str], str]()
    for number, (what, name, which, org) in enumerate(asked):
        new, old = f"tool-{number}", [*held.values()][which] if which < len(held) else "tool-no"
        owner = next((key for key, value in held.items() if value == old), ("", ""))
        if what == "create":
            reply, expected = await tools.ask(create(new, name), org), True
            held.setdefault((org, name), new)
        elif what == "rename":
            changes = {"source_code": SOURCE.format(name=name)}
            reply = await tools.ask(UpdateTool(tool_id=old, changes=changes), org)
            expected = owner[0] == org and held.get((org, name), old) == old
            if expected:
                del held[owner]
                held[(org, name)] = old
        else:
            reply = await tools.ask(DeleteTool(tool_id=old), org)
            expected = owner[0] == org
            if expected:
                del held[owner]
        assert isinstance(reply, Accepted) == expected, (what, reply)
        assert {(row["org"], row["name"]): row["id"] for row in tools.rows().values()} == held


async def test_an_organisation_has_so_many_tools_at_most_and_replaces_them_all_the_same() -> None:
    """API-14: a limit is a 422 that says it; what is there can be changed and deleted."""
    tools = await Tools().start()
    assert isinstance(await tools.ask(create("tool-1", "roll")), Accepted)
    tools.counted.there = ToolsOfOrg(TOOLS_OF_ORG_MAX, 0)
    refusal(await tools.ask(create("tool-2", "toss")), UNPROCESSABLE, "5000 are the most")
    refusal(await tools.ask(create("tool-2", "toss")), UNPROCESSABLE, "5000 are the most")
    tools.counted.there = ToolsOfOrg(1, TOOLS_OF_ORG_BYTES_MAX)
    refusal(await tools.ask(create("tool-2", "toss")), UNPROCESSABLE, "268435456 are the most")
    assert isinstance(await tools.ask(create("tool-3", "roll", tags=["new"])), Accepted)
    assert list(tools.rows()) == ["tool-1"]
    assert isinstance(await tools.ask(DeleteTool(tool_id="tool-1")), Accepted)


async def test_tools_made_in_one_moment_do_not_pass_the_limit_together(monkeypatch) -> None:
    """API-14: each is counted after the one before it is there; another organisation waits not."""
    monkeypatch.setattr("services.tools.domain.organisation_tool_quota.TOOLS_OF_ORG_MAX", 3)
    tools = await Tools().start()
    tools.counted = CountedRows(tools.rows)
    asked = [tools.ask(create(f"tool-{n}", f"roll_{n}")) for n in range(6)]
    others = [tools.ask(create(f"tool-other-{n}", f"roll_{n}"), OTHER_ORG) for n in range(2)]
    replies = await asyncio.gather(*asked, *others)
    assert sum(isinstance(reply, Accepted) for reply in replies[:6]) == 3
    assert all(isinstance(reply, Accepted) for reply in replies[6:])
    assert [org for org, _ in tools.names()] == [ORG] * 3 + [OTHER_ORG] * 2

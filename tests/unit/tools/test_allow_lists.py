"""TOOL-15: which tools may be called, and that a call that is not allowed is refused everywhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.contracts.bus_messages import UNPROCESSABLE, Accepted, Context, Rejected
from libs.contracts.environment_parsing import WrongSetting
from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS
from libs.contracts.tools.tool_permission_evaluation import (
    EVERYTHING,
    NEEDS_OF_TYPE,
    CalledTool,
    Caller,
    ToolPolicies,
    called_tool,
    compile_list,
    needs_of,
    policies_of,
    refusal_by_policies,
    system_list,
)
from libs.contracts.tools.tool_permissions import (
    LISTS_OF_ORG_MAX,
    TOOLS_OF_LIST_MAX,
    AllowList,
    ScopeKind,
    SetToolPermissions,
)
from libs.contracts.tools.tool_runs import ToolRunRefused
from libs.eventstore.event_decoding import event_of
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import StoreUnavailable
from libs.eventstore.sql_view_cache import CachedView
from libs.eventstore.unit_of_work import Repository
from services.tools import projections
from services.tools.handlers.tool_permissions import ToolPermissionHandlers
from services.tools.policies.agent_cleanup import CleanupPorts, PermissionCleanup
from tests.clock_and_ids import CountingIds, StandingClock
from tests.unit.allowed import ToolPermissionRows
from tests.unit.tools.tool_run_world import CALL, DICE, TOOL, Process, World, call

AGENT = Caller("org-1", "project-1", "agent-1")
ROLL = CalledTool(TOOL, "roll_die", "custom")
INSERT = called_tool(BASE_TOOLS["memory_insert"])
PERMISSION_SECONDS_MAX = 100e-6


def policies(**lists: dict[str, list[str]]) -> ToolPolicies:
    """Lists by kind of scope, for organisation 1, its project 1 and agent 1."""
    ids = {"organisation": "org-1", "project": "project-1", "agent": "agent-1"}
    return ToolPolicies(
        scopes={
            ("org-1", kind, ids[kind]): compile_list(list_.get("tools"), list_.get("capabilities"))
            for kind, list_ in lists.items()
        }
    )


@pytest.fixture
async def world() -> World:
    made = World()
    await made.make_tool()
    await made.listen()
    return made


class TestTheCheck:
    def test_without_lists_everything_is_allowed(self) -> None:
        for tool in (ROLL, INSERT, CalledTool("tool-1", "read_mail", "external_mcp")):
            assert refusal_by_policies(ToolPolicies(), AGENT, tool) == ""

    def test_before_the_lists_are_known_nothing_is_but_to_speak(self) -> None:
        assert "not known yet" in refusal_by_policies(None, AGENT, INSERT)
        assert refusal_by_policies(None, AGENT, called_tool(BASE_TOOLS["send_message"])) == ""

    @pytest.mark.parametrize("kind", ["organisation", "project", "agent"])
    def test_a_list_of_each_scope_withholds_what_it_does_not_name(self, kind: str) -> None:
        known = policies(**{kind: {"tools": ["memory_insert"]}})
        assert refusal_by_policies(known, AGENT, INSERT) == ""
        refused = refusal_by_policies(known, AGENT, ROLL)
        assert refused == (
            f"'roll_die' is not allowed for this {kind}: it is not on the list of tools."
        )
        other = {"organisation": Caller("org-2"), "project": Caller("org-1", "project-2")}
        caller = other.get(kind, Caller("org-1", "project-1", "agent-2"))
        assert refusal_by_policies(known, caller, ROLL) == ""

    def test_a_narrow_list_never_gives_what_a_wider_one_withholds(self) -> None:
        known = policies(organisation={"tools": ["memory_insert"]}, agent={"tools": ["roll_die"]})
        assert "organisation" in refusal_by_policies(known, AGENT, ROLL)
        assert "agent" in refusal_by_policies(known, AGENT, INSERT)

    def test_the_operators_list_is_above_all(self) -> None:
        known = ToolPolicies(system_list({"HEELER_ALLOWED_TOOLS": "memory_insert, roll_die"}))
        assert refusal_by_policies(known, AGENT, ROLL) == ""
        replace = called_tool(BASE_TOOLS["memory_replace"])
        assert "on this server" in refusal_by_policies(known, AGENT, replace)
        nothing = ToolPolicies(system_list({"HEELER_ALLOWED_CAPABILITIES": "none"}))
        search = called_tool(BASE_TOOLS["conversation_search"])
        assert refusal_by_policies(nothing, AGENT, search) == ""
        assert "(code)" in refusal_by_policies(nothing, AGENT, ROLL)
        with pytest.raises(WrongSetting, match="HEELER_ALLOWED_CAPABILITIES is 'cod'"):
            system_list({"HEELER_ALLOWED_CAPABILITIES": "cod"})

    def test_a_tool_stands_on_a_list_by_its_id_whatever_it_is_called(self) -> None:
        known = policies(agent={"tools": [TOOL]})
        assert refusal_by_policies(known, AGENT, ROLL) == ""
        assert refusal_by_policies(known, AGENT, CalledTool(TOOL, "renamed", "custom")) == ""
        assert refusal_by_policies(known, AGENT, CalledTool("tool-2", "roll_die", "custom"))

    def test_source_that_is_no_tool_stands_on_no_list(self) -> None:
        known = policies(organisation={"tools": ["roll_die", "send_message"]})
        for name in ("roll_die", "send_message"):
            assert refusal_by_policies(known, AGENT, CalledTool("", name, "custom"))

    def test_it_is_known_of_every_type_of_tool_what_it_needs(self) -> None:
        assert {tool_type.value for tool_type in ToolType} - NEEDS_OF_TYPE.keys() == {
            "external_langchain",
            "external_composio",
        }
        assert needs_of(CalledTool("tool-1", "x", "a type of a newer server")) == EVERYTHING
        for name, wanted in {
            "memory_insert": {"memory"},
            "archival_memory_search": {"memory"},
            "send_message_to_agent_async": {"agents"},
            "run_code": {"code"},
            "web_search": {"network"},
            "open_files": {"filesystem"},
            "conversation_search": set(),
        }.items():
            assert needs_of(called_tool(BASE_TOOLS[name])) == wanted, name
        # A name does not make a client's tool harmless.
        assert needs_of(CalledTool("tool-1", "web_search", "custom")) == {"code"}

    def test_it_takes_less_than_100_microseconds(self) -> None:
        many = {("org-1", "agent", f"agent-{n}"): compile_list(["a"], None) for n in range(5_000)}
        lists = {"tools": ["roll_die", *map(str, range(TOOLS_OF_LIST_MAX))]}
        known = ToolPolicies(
            scopes={**many, **policies(organisation=lists, project=lists, agent=lists).scopes}
        )
        took = []
        for _ in range(200):
            since = time.perf_counter()
            assert refusal_by_policies(known, AGENT, ROLL) == ""
            took.append(time.perf_counter() - since)
        assert sorted(took)[100] < PERMISSION_SECONDS_MAX


class TestCallsOfTheToolsService:
    async def test_a_call_that_is_not_allowed_is_refused_by_an_event_and_not_made(
        self, world: World
    ) -> None:
        world.policies = policies(agent={"capabilities": ["memory"]})
        process = Process(world, "tools-1")
        reply = await process.tell(call())
        again = await process.tell(call(), "m-2")
        await asyncio.gather(*process.runs.asides)

        assert isinstance(reply, Accepted)
        assert isinstance(again, Accepted)
        assert process.sandbox.programs == []
        [refused] = (event_of("tools", stored) for stored in world.schema.streams[CALL])
        assert isinstance(refused, ToolRunRefused)
        assert (refused.tool_id, refused.name) == (TOOL, "roll_die")
        assert (refused.agent_id, refused.run_id) == ("agent-1", "run-1")
        assert "not on the list of capabilities (code)" in refused.reason
        assert world.row()["status"] == "refused"
        told = {"status": "error", "text": refused.reason}
        assert world.row()["result"].items() >= told.items()  # type: ignore[union-attr]
        assert world.told[0]["result"].items() >= told.items()  # type: ignore[union-attr]

    async def test_a_list_of_the_project_holds_for_the_calls_of_its_agents(
        self, world: World
    ) -> None:
        world.policies = policies(project={"tools": []})
        process = Process(world, "tools-1")
        await process.tell(call(project_id="project-1"))
        assert world.story() == ["tool_run.refused"]

    async def test_source_is_refused_where_code_is_not_allowed(self, world: World) -> None:
        world.policies = policies(organisation={"tools": ["roll_die"]})
        process = Process(world, "tools-1")
        source = DICE.model_copy(update={"id": ""})
        await process.tell(call(source=source.model_dump(), tool_id=""))
        assert world.story() == ["tool_run.refused"]
        assert process.sandbox.programs == []


class Gone:
    """Answers in the place of `DeletedAgents`."""

    agents: set[str] = set()  # noqa: RUF012

    async def deleted_agents(self, org: str, agent_ids: list[str]) -> list[str]:
        return [agent_id for agent_id in agent_ids if agent_id in self.agents]

    async def last_event(self) -> int:
        return len(self.agents)


class TestLists:
    """Lists as they are set and read again, in each process that asks."""

    @pytest.fixture
    def database(self) -> InMemoryDatabase:
        return InMemoryDatabase(lambda: 0.0)

    @pytest.fixture
    async def bus(self, database: InMemoryDatabase) -> InMemoryBus:
        store = InMemoryEventStore(database, "tools", "tools-1")
        repository = Repository(store, "tools", projections.project)
        handlers = ToolPermissionHandlers(ToolPermissionRows(database), StandingClock())
        bus = InMemoryBus(InMemoryNetwork())
        await bus.serve("tools", CommandDispatcher(repository, handlers.table()).answer)
        return bus

    @pytest.fixture
    def view(self, database: InMemoryDatabase) -> CachedView[ToolPolicies]:
        return CachedView(
            ToolPermissionRows(database), lambda rows: policies_of(compile_list(None, None), rows)
        )

    @staticmethod
    async def set(
        bus: InMemoryBus, message_id: str, kind: ScopeKind, scope_id: str, **allowed: list[str]
    ) -> Accepted | Rejected:
        command = SetToolPermissions(
            kind=kind, scope_id=scope_id, allowed=AllowList.model_validate(allowed)
        )
        return await bus.request(command, Context(message_id, "org-1", "user-1"))

    async def test_a_list_is_in_force_at_the_next_look_and_gone_when_it_has_no_limit(
        self, bus: InMemoryBus, view: CachedView[ToolPolicies], database: InMemoryDatabase
    ) -> None:
        await view.look()
        assert refusal_by_policies(view.value, AGENT, ROLL) == ""
        await self.set(bus, "m-1", "agent", "agent-1", tools=["memory_insert"])
        assert refusal_by_policies(view.value, AGENT, ROLL) == "", "nobody has looked"
        await view.look()
        assert refusal_by_policies(view.value, AGENT, ROLL)
        await self.set(bus, "m-2", "agent", "agent-1", tools=["roll_die"])
        await view.look()
        assert refusal_by_policies(view.value, AGENT, ROLL) == ""
        await self.set(bus, "m-3", "agent", "agent-1")
        await view.look()
        assert view.value == ToolPolicies()
        assert database.schema("tools").rows("tool_permissions") == []

    async def test_the_list_of_a_deleted_agent_ends(
        self, bus: InMemoryBus, view: CachedView[ToolPolicies], database: InMemoryDatabase
    ) -> None:
        await self.set(bus, "m-1", "agent", "agent-1", tools=["memory_insert"])
        await self.set(bus, "m-2", "agent", "agent-2", tools=["memory_insert"])
        await self.set(bus, "m-3", "project", "agent-1", tools=["memory_insert"])
        await view.look()
        store = InMemoryEventStore(database, "tools", "tools-1")
        gone = Gone()
        cleanup = PermissionCleanup(
            CleanupPorts(
                bus=bus,
                policies=view,
                deleted=gone,
                repository=Repository(store, "tools", projections.project),
                clock=StandingClock(),
                ids=CountingIds(),
                committed=view.look_again,
            )
        )
        await cleanup.sweep()
        gone.agents = {"agent-1"}
        await cleanup.sweep()
        assert len(database.schema("tools").rows("tool_permissions")) == 3, "it looks seldom"
        cleanup.look_at_all()
        await cleanup.sweep()
        await view.look()

        assert view.value is not None
        assert {key[1:] for key in view.value.scopes} == {
            ("agent", "agent-2"),
            ("project", "agent-1"),
        }

        await self.set(bus, "m-4", "agent", "agent-3", tools=["memory_insert"])
        gone.agents = {"agent-3"}
        cleanup.look_at_all()
        await cleanup.sweep()
        left = {row["scope_id"] for row in database.schema("tools").rows("tool_permissions")}
        assert left == {"agent-2", "agent-1"}, "it had not seen the list of agent-3"

    async def test_a_look_that_is_late_does_not_undo_a_later_one(
        self, bus: InMemoryBus, view: CachedView[ToolPolicies], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await self.set(bus, "m-1", "agent", "agent-1", tools=[])
        read, began, goes_on = view.reader.rows, asyncio.Event(), asyncio.Event()

        async def rows() -> Sequence[tuple[Any, ...]]:
            found = await read()
            monkeypatch.setattr(view.reader, "rows", read)
            began.set()
            await goes_on.wait()
            return found

        monkeypatch.setattr(view.reader, "rows", rows)
        first = asyncio.create_task(view.look())
        await began.wait()
        await self.set(bus, "m-2", "agent", "agent-1", tools=["roll_die"])
        second = asyncio.create_task(view.look())
        asyncio.get_running_loop().call_soon(
            goes_on.set
        )  # when the second has gone as far as it can
        await asyncio.gather(first, second)
        assert refusal_by_policies(view.value, AGENT, ROLL) == ""

    async def test_who_hears_of_a_change_looks_at_once(
        self, bus: InMemoryBus, view: CachedView[ToolPolicies]
    ) -> None:
        await view.look()
        await self.set(bus, "m-1", "organisation", "org-1", capabilities=["memory"])
        view.look_again()
        view.look_again()
        assert view.looking is not None
        await view.looking
        assert refusal_by_policies(view.value, AGENT, ROLL)
        assert view.looking is None

    async def test_in_an_outage_the_lists_that_were_known_hold(
        self, bus: InMemoryBus, view: CachedView[ToolPolicies], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await self.set(bus, "m-1", "agent", "agent-1", tools=[])
        await view.look()

        async def away() -> str:
            raise StoreUnavailable("away")

        monkeypatch.setattr(view.reader, "fingerprint", away)
        view.look_again()
        assert view.looking is not None
        await view.looking
        assert refusal_by_policies(view.value, AGENT, ROLL)

    async def test_what_changes_nothing_is_no_event(
        self, bus: InMemoryBus, database: InMemoryDatabase
    ) -> None:
        await self.set(bus, "m-1", "agent", "agent-1", tools=["b", "a", "b"])
        await self.set(bus, "m-2", "agent", "agent-1", tools=["a", "b"])
        [stream] = database.schema("tools").streams.values()
        assert [event.topic for event in stream] == ["tool_permissions.changed"]

    async def test_lists_are_bounded(self, bus: InMemoryBus, database: InMemoryDatabase) -> None:
        long = [f"tool_{n}" for n in range(TOOLS_OF_LIST_MAX + 1)]
        for names in (long, ["x" * 129], [""]):
            refused = await self.set(bus, f"m-{names[0][:9]}", "agent", "agent-1", tools=names)
            assert isinstance(refused, Rejected)
            assert (refused.code, "`tools`" in refused.reason) == (UNPROCESSABLE, True)
        await self.set(bus, "m-1", "agent", "agent-1", tools=[])
        [row] = database.schema("tools").rows("tool_permissions")
        rows = {(str(n),): {**row, "id": str(n)} for n in range(LISTS_OF_ORG_MAX)}
        database.schema("tools").tables["tool_permissions"].update(rows)
        refused = await self.set(bus, "m-2", "agent", "agent-2", tools=[])
        assert isinstance(refused, Rejected)
        assert "lists already" in refused.reason

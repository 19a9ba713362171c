"""What became of the files that describe agents, in memory: commands in; events and rows out."""

from __future__ import annotations

from typing import Any, cast

import pytest

from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.contracts.api.configurations import (
    Configuration,
    ConfigurationProblem,
    DeleteConfiguration,
    ReportConfiguration,
    configuration_id,
)
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Command, Context, Rejected
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from services.api.adapters.agents.configuration_queries import ConfigurationQueries
from services.api.handlers.configurations import ConfigurationHandlers
from services.api.handlers.ports import HandlerPorts
from services.api.policies.ends_with_agents import DeleteConfigurations
from services.api.projections import project
from tests.clock_and_ids import CountingIds, ManualClock

ORG, AGENT = "org-1", "agent-1"
APPLIED = Configuration(file="ada.toml", fingerprint="1", status="applied")
REJECTED = Configuration(
    file="ada.toml",
    fingerprint="2",
    status="rejected",
    problems=[ConfigurationProblem(line=3, message="`modle` is unknown", suggestion="model")],
)


class World:
    """The files of agents, some of which are deleted."""

    def __init__(self) -> None:
        database = InMemoryDatabase(lambda: 0.0)
        self.schema = database.schema("api")
        store = InMemoryEventStore(database, "api", "api-1")
        self.clock = ManualClock()
        self.bus = InMemoryBus(InMemoryNetwork())
        unused: Any = None
        ports = HandlerPorts(
            clock=self.clock,
            attachments=unused,
            projects=unused,
            templates=unused,
            deployments=unused,
        )
        repository = Repository(store, "api", project)
        self.shell = CommandDispatcher(repository, ConfigurationHandlers(ports).table())
        self.deleted_agents: list[str] = []
        self.asked = 0

    async def start(self) -> World:
        await self.bus.serve("api", self.shell.answer)
        return self

    async def tell(self, command: Command) -> Accepted | Rejected:
        self.asked += 1
        return await self.bus.request(command, Context(f"m-{self.asked}", org=ORG))

    async def report(self, configuration: Configuration) -> Accepted | Rejected:
        return await self.tell(ReportConfiguration(agent_id=AGENT, configuration=configuration))

    def topics(self) -> list[str]:
        return [stored.topic for stored in self.schema.committed]

    def shown(self) -> tuple[str | None, str | None]:
        """The fingerprints of the file that was applied, and of one that was rejected since."""
        [row] = cast(list[dict[str, Any]], list(self.schema.rows("configurations")))
        assert (row["id"], row["org"], row["agent_id"]) == (configuration_id(AGENT), ORG, AGENT)
        found = [row[name]["fingerprint"] if row[name] else None for name in NAMES]
        return found[0], found[1]

    async def abandoned_configurations(self, agent_ids: list[str] | None) -> list[tuple[str, str]]:
        rows = cast(list[dict[str, Any]], list(self.schema.rows("configurations")))
        return [(row["agent_id"], ORG) for row in rows if row["agent_id"] in self.deleted_agents]


NAMES = ("applied", "rejected")


@pytest.fixture
async def world() -> World:
    return await World().start()


async def test_the_last_applied_file_is_shown_and_one_that_was_rejected_since(
    world: World,
) -> None:
    seen = []
    for reported in (REJECTED, APPLIED, REJECTED, APPLIED):
        assert isinstance(await world.report(reported), Accepted)
        seen.append(world.shown())

    assert seen == [(None, "2"), ("1", None), ("1", "2"), ("1", None)]
    assert world.topics() == [
        "configuration.rejected",
        "configuration.applied",
        "configuration.rejected",
        "configuration.applied",
    ]


async def test_the_same_report_again_is_not_an_event(world: World) -> None:
    for reported in (APPLIED, APPLIED, REJECTED, REJECTED):
        await world.report(reported)

    assert world.topics() == ["configuration.applied", "configuration.rejected"]


async def test_the_file_of_a_deleted_agent_is_forgotten_and_never_known_again(
    world: World,
) -> None:
    queries = cast(ConfigurationQueries, world)
    policy = DeleteConfigurations(world.bus, queries, world.clock, CountingIds())
    await world.report(APPLIED)
    await policy.sweep()
    assert world.shown() == ("1", None), "its agent is there"
    world.deleted_agents = [AGENT]
    policy.look_at_all()

    await policy.sweep()

    assert list(world.schema.rows("configurations")) == []
    late = await world.report(REJECTED)
    assert isinstance(late, Rejected)
    assert late.code == NOT_FOUND
    assert isinstance(await world.tell(DeleteConfiguration(agent_id=AGENT)), Accepted)
    assert world.topics() == ["configuration.applied", "configuration.deleted"]

"""R42, the kinds: each kind of long work can be given up wherever it stands, with a dead letter."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import services
from libs.bus.dead_letter_records import DIED, attempts_of_work, letter_id
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.process_ports import ProcessPorts
from libs.contracts.agent.batches import BatchCallbackAttempted, BatchCompleted
from libs.contracts.agent.run_replays import RunReplayFailed
from libs.contracts.agent.runs import CallbackAttempted
from libs.contracts.agent.summaries import SummaryFailed, SummaryNotArchived
from libs.contracts.api.deployments import DeploymentRefused, DeploymentUndone, MigrationEnded
from libs.contracts.api.fleets import FleetApplyEnded
from libs.contracts.api.imports import ImportAbandoned, ImportUndone
from libs.contracts.api.restores import RestoreRefused, RestoreUndone
from libs.contracts.bus_messages import Context, Event, JsonObject
from libs.contracts.groups.group_runs import GroupRunFailed
from libs.contracts.groups.routing import RoutedMessageFailed
from libs.contracts.groups.sleeptime import ReviewStarted
from libs.contracts.memory.files import FileFailed
from libs.contracts.scheduler.firings import FiringDeadLettered
from libs.contracts.tools.mcp_servers import McpDiscoveryFailed
from libs.contracts.tools.tool_runs import ToolRunLost
from libs.eventstore.failed_messages.ports import Attempt
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import Commit, Fence, NewEvent
from libs.eventstore.unit_of_work import Repository
from libs.work.attempt_counts import ATTEMPTS_MAX
from libs.work.leased_work import LeasedWork
from libs.work.work_lease import DueWork, WorkLease
from services.agent.adapters.batch_queries import DueBatchCallback
from services.agent.adapters.run_queries import DueCallback
from services.agent.adapters.summary_queries import DueSummary
from services.agent.engine.batches import Batches
from services.agent.engine.callbacks import BatchCallbacks, CallbackSender
from services.agent.engine.replays import RunReplays
from services.agent.engine.summaries import SummaryWriter
from services.api.engine.deployments import Deployments
from services.api.engine.fleet_applies import FleetApplies
from services.api.engine.imports import Imports
from services.api.engine.restores import Restores
from services.groups.engine.group_runs import GroupRuns
from services.groups.engine.reviews import Reviews
from services.groups.engine.routing import RoutedMessages
from services.memory.engine.file_processing import FileProcessing
from services.scheduler.adapters.schedule_queries import DueSchedule
from services.scheduler.engine.firings import Firings
from services.tools.engine.mcp_discoveries import McpDiscoveries
from services.tools.engine.tool_runs import ToolRuns
from tests.clock_and_ids import CountingIds, ManualClock
from tests.contract.examples import RUN_CONFIG
from tests.contract.histories import HISTORIES, numbered
from tests.contract.summary_examples import SUMMARY

ORG = "org-1"
NOW = datetime(2026, 5, 17, tzinfo=UTC)
WHOLE = 1_000


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of work, the first events of a history of its aggregate, and how it ends then."""

    kind: type[LeasedWork[Any]]
    history: str
    events: int
    ends_with: type[Event]
    tells_why: bool = True
    work: dict[str, Any] = field(default_factory=dict)

    @property
    def service(self) -> str:
        """The service that does this kind of work."""
        return self.kind.__module__.split(".")[1]


CALLBACK = {"url": "https://example.com", "attempts": 1}
CASES = [
    Case(Imports, "AgentImport", 1, ImportAbandoned),
    Case(Imports, "AgentImport", 2, ImportAbandoned),
    Case(Imports, "AgentImport.failed", 3, ImportUndone, tells_why=False),
    Case(Restores, "AgentRestores", 1, RestoreRefused),
    Case(Restores, "AgentRestores", 5, RestoreUndone, tells_why=False),
    Case(FleetApplies, "Fleet.applying", 2, FleetApplyEnded),
    Case(FleetApplies, "Fleet.applying", WHOLE, FleetApplyEnded),
    Case(Deployments, "Deployment", 1, DeploymentRefused),
    Case(Deployments, "Deployment", 3, MigrationEnded),
    Case(Deployments, "Deployment.refused", 2, DeploymentUndone, tells_why=False),
    Case(Batches, "Batch", 1, BatchCompleted, tells_why=False),
    Case(Batches, "Batch", 2, BatchCompleted),
    Case(Batches, "Batch.cancelled", 3, BatchCompleted),
    Case(
        BatchCallbacks,
        "Batch",
        7,
        BatchCallbackAttempted,
        work={**CALLBACK, "batch_id": "work-1", "status": "completed", "completed_at": ""},
    ),
    Case(
        CallbackSender,
        "Conversation",
        4,
        CallbackAttempted,
        work={
            **CALLBACK,
            "run_id": RUN_CONFIG.id,
            "conversation_id": "work-1",
            "run": {},
            "usage": None,
        },
    ),
    Case(RunReplays, "RunReplay.running", WHOLE, RunReplayFailed),
    Case(
        SummaryWriter,
        "AgentSummaries",
        2,
        SummaryFailed,
        work={"agent_id": "agent-1", "summary_id": SUMMARY},
    ),
    Case(
        SummaryWriter,
        "AgentSummaries",
        3,
        SummaryNotArchived,
        work={"agent_id": "agent-1", "summary_id": SUMMARY},
    ),
    Case(Firings, "Schedule", 5, FiringDeadLettered, work={"now": NOW}),
    Case(ToolRuns, "ToolRun", 1, ToolRunLost, tells_why=False),
    Case(McpDiscoveries, "McpServer", 1, McpDiscoveryFailed),
    Case(GroupRuns, "GroupConversation.under_way", WHOLE, GroupRunFailed),
    Case(RoutedMessages, "RoutedMessage", 2, RoutedMessageFailed),
    Case(Reviews, "Group", 8, ReviewStarted),
    Case(FileProcessing, "File", 2, FileFailed),
]
WORKS: dict[type[LeasedWork[Any]], type[Any]] = {
    BatchCallbacks: DueBatchCallback,
    CallbackSender: DueCallback,
    RunReplays: DueWork,
    SummaryWriter: DueSummary,
    Firings: DueSchedule,
}


def kinds_of_work() -> set[type[LeasedWork[Any]]]:
    """All kinds of leased work that the services have."""
    for module in pkgutil.walk_packages(services.__path__, "services."):
        if ".engine." in module.name:
            importlib.import_module(module.name)
    found: set[type[LeasedWork[Any]]] = set()
    unseen = [*LeasedWork.__subclasses__()]
    while unseen:
        kind = unseen.pop()
        unseen += kind.__subclasses__()
        if kind.__module__.startswith("services.") and not inspect.isabstract(kind):
            found.add(kind)
    return found


def test_r42_every_kind_of_leased_work_is_given_up_in_a_test_below() -> None:
    assert {case.kind for case in CASES} == kinds_of_work()


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.kind.__name__}-{case.history}-{case.events}"
)
async def test_r42_work_that_is_given_up_has_ended_as_failed_with_a_dead_letter(
    case: Case,
) -> None:
    repository = await with_history(case)
    work, lease = await attempt(case, repository)
    before = len(stored(repository))

    await work.end_as_failed(lease, DIED, Attempt(ATTEMPTS_MAX, NOW))

    key = attempts_of_work(lease.work.id)
    letter = await repository.store.letters.find(letter_id(case.service, key))
    assert letter is not None
    assert (letter.kind, letter.attempts, letter.org) == ("work", ATTEMPTS_MAX, ORG)
    assert letter.name == f"{case.service}.{case.kind.name.replace(' ', '_')}"
    ends = stored(repository)[before:]
    assert case.ends_with.topic in [topic for topic, _ in ends]
    assert not case.tells_why or letter.id in json.dumps([payload for _, payload in ends])
    assert await repository.store.take_lease(lease.work.id) is not None, "it is free"


async def with_history(case: Case) -> Repository:
    """A repository of the service in which the first events of a history have happened."""
    _, events = HISTORIES[case.history]
    project = importlib.import_module(f"services.{case.service}.projections").project
    store = InMemoryEventStore(InMemoryDatabase(lambda: 0.0), case.service, "process-1")
    repository = Repository(store, case.service, project)
    commit = Commit()
    for event in [*numbered(events)][: case.events]:
        known = event.model_copy(update={"originator_id": "work-1"})
        commit.events.append(envelope(known))
        project(known, ORG, commit.rows)
    await store.commit(commit)
    return repository


def envelope(event: Event) -> NewEvent:
    """An event as it is stored."""
    return NewEvent(
        event.originator_id,
        event.originator_version,
        event.topic,
        event.schema_version,
        ORG,
        event.about,
        event.payload_json(),
        {},
        event.timestamp,
    )


async def attempt(case: Case, repository: Repository) -> tuple[LeasedWork[Any], WorkLease[Any]]:
    """The works of a process, and the lease of an attempt at this one."""
    ports = ProcessPorts(
        repository=repository,
        bus=InMemoryBus(InMemoryNetwork()),
        clock=ManualClock(),
        ids=CountingIds(),
        committed=lambda: None,
    )
    works = case.kind.__new__(case.kind)
    LeasedWork.__init__(works, ports)
    make = partial(WORKS.get(case.kind, DueWork), org=ORG, **case.work)
    work = make() if "callback" in case.kind.name else make(id="work-1")
    epoch = await repository.store.take_lease(work.id)
    assert epoch is not None
    context = Context("sweep-1", org=ORG)
    return works, WorkLease(work, Fence(work.id, epoch), ports, context, taken_over=True)


def stored(repository: Repository) -> Sequence[tuple[str, JsonObject]]:
    """The topics and payloads of all events, in order."""
    store = repository.store
    assert isinstance(store, InMemoryEventStore)
    return [(event.topic, event.payload) for event in store.schema.committed]

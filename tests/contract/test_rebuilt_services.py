"""The read models of the services themselves can be rebuilt: by the migration, and by a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from deploy.rebuild import main, owners, read_models
from libs.contracts.agent.agents import AgentCreated
from libs.contracts.agent.approvals import ApprovalRequested
from libs.contracts.agent.batches import (
    BatchAccepted,
    BatchCancelled,
    BatchCompleted,
    BatchItemEnded,
    BatchItemsStarted,
)
from libs.contracts.agent.conversations import (
    ConversationCreated,
    ConversationDeleted,
    ConversationUpdated,
    MessageAppended,
)
from libs.contracts.agent.run_replays import (
    RunReplayAdvanced,
    RunReplayCompleted,
    RunReplayFailed,
    RunReplayRequested,
    RunReplayStepCompared,
)
from libs.contracts.agent.runs import (
    CallbackAttempted,
    HeartbeatsPaused,
    QueuedRunsCancelled,
    RunAccepted,
    RunCompleted,
    RunStarted,
)
from libs.contracts.agent.steps import ModelReplied
from libs.contracts.agent.summaries import (
    SummariesDeleted,
    SummaryArchived,
    SummaryFailed,
    SummaryPartWritten,
    SummaryRequested,
    SummaryWritten,
)
from libs.contracts.api.attachments import AttachmentMade, AttachmentRemoved
from libs.contracts.api.configurations import (
    ConfigurationApplied,
    ConfigurationDeleted,
    ConfigurationRejected,
)
from libs.contracts.api.deployments import (
    DeploymentCompleted,
    DeploymentEnded,
    DeploymentRefused,
    DeploymentStarted,
    DeploymentUndone,
    MigrationEnded,
    MigrationStarted,
)
from libs.contracts.api.fleets import (
    FleetApplyEnded,
    FleetApplyStarted,
    FleetCreated,
    FleetDeleted,
    FleetMemberReleased,
    FleetRenamed,
    FleetUnitEnded,
)
from libs.contracts.api.identities import IdentityChanged, IdentityCreated, IdentityDeleted
from libs.contracts.api.imports import (
    ImportAbandoned,
    ImportCancelled,
    ImportCompleted,
    ImportDelayed,
    ImportForgotten,
    ImportProgressed,
    ImportRequested,
    ImportUndone,
    ImportValidated,
)
from libs.contracts.api.projects import (
    ProjectChanged,
    ProjectCreated,
    ProjectDeleted,
    ProjectEmptied,
)
from libs.contracts.api.restores import (
    RestoreCompleted,
    RestoreDelayed,
    RestoreRefused,
    RestoreRequested,
    RestoreUndone,
)
from libs.contracts.api.templates import (
    TemplateChanged,
    TemplateCreated,
    TemplateDeleted,
    TemplateRenamed,
    TemplateVersionSaved,
)
from libs.contracts.bus_messages import DEFAULT_ORG, Event
from libs.contracts.groups.group_runs import (
    GroupHopEnded,
    GroupHopStarted,
    GroupMessageAppended,
    GroupMessageEdited,
    GroupRunAccepted,
    GroupRunCompleted,
    GroupRunStarted,
    GroupTranscriptEmptied,
)
from libs.contracts.groups.groups import (
    GroupBlockAttached,
    GroupBlockDetached,
    GroupCreated,
    GroupDeleted,
    GroupStateUpdated,
    GroupUpdated,
    MemberAdded,
    MemberBlocksChanged,
    MemberRemoved,
)
from libs.contracts.groups.routing import (
    MessageDelivered,
    MessageRouted,
    RoutedMessageAccepted,
    RoutedMessageCompleted,
)
from libs.contracts.groups.sleeptime import ReviewRequested, ReviewStarted, RunCounted
from libs.contracts.groups.topics import AgentSubscribed
from libs.contracts.letta.capabilities import Capability
from libs.contracts.memory.agent_folders import (
    FilesOpened,
    FolderAttached,
    FolderDetached,
    agent_folders_id,
)
from libs.contracts.memory.archives import (
    ArchiveAttached,
    ArchiveChanged,
    ArchiveCreated,
    ArchiveDeleted,
    ArchiveDetached,
    PassageCreated,
    PassageDeleted,
)
from libs.contracts.memory.blocks import BlockChanged, BlockCreated
from libs.contracts.memory.files import (
    FileAdded,
    FileChunksEmbedded,
    FileCompleted,
    FileDelayed,
    FileDeleted,
    FileFailed,
    FileParsed,
    FileShown,
)
from libs.contracts.memory.folders import FolderChanged, FolderCreated, FolderDeleted
from libs.contracts.memory.reembedding import (
    ArchiveEmbeddingChanged,
    ArchiveReembedded,
    FileChunksReembedded,
    FolderEmbeddingChanged,
    FolderReembedded,
    PassageEmbedded,
)
from libs.contracts.scheduler.firings import (
    FiringDeadLettered,
    FiringEnded,
    FiringFailed,
    FiringRetried,
    FiringStarted,
)
from libs.contracts.scheduler.schedules import (
    ScheduleCreated,
    ScheduleDeleted,
    SchedulePaused,
    ScheduleResumed,
    ScheduleUpdated,
    SlotsSkipped,
)
from libs.contracts.service_registry import names
from libs.contracts.tools.mcp_servers import McpServerCreated, McpToolsDiscovered
from libs.contracts.tools.sandbox_configs import (
    PackagesRecreated,
    SandboxConfigChanged,
    SandboxVariableSet,
)
from libs.contracts.tools.tool_permissions import ToolPermissionsChanged
from libs.contracts.tools.tool_runs import (
    ToolRunBegun,
    ToolRunEnded,
    ToolRunForgotten,
    ToolRunLost,
    ToolRunRefused,
    ToolRunStopped,
)
from libs.contracts.tools.tools import ToolChanged, ToolCreated
from libs.eventstore.connection_pool import Database, open_pool
from libs.eventstore.ports import Commit, NewEvent
from libs.eventstore.postgres import PostgresEventStore
from tests.contract.archive_examples import ARCHIVE, PASSAGE
from tests.contract.batch_examples import BATCH
from tests.contract.configuration_examples import CONFIGURATION
from tests.contract.examples import (
    AGENT,
    BLOCK,
    CONVERSATION,
    EVENTS,
    MCP_SERVER,
    RUN,
    TOOL,
    TOOL_RUN,
)
from tests.contract.file_examples import FILE, FOLDER
from tests.contract.fleet_examples import APPLY, FLEET
from tests.contract.group_examples import GROUP
from tests.contract.group_run_examples import CONVERSATION as GROUP_CONVERSATION
from tests.contract.group_run_examples import GROUP_RUN
from tests.contract.identity_examples import ATTACHMENT, IDENTITY
from tests.contract.import_examples import IMPORT
from tests.contract.project_examples import PROJECT
from tests.contract.replay_examples import REPLAY
from tests.contract.restore_examples import RESTORE, RESTORES
from tests.contract.routing_examples import ROUTED, TOPIC
from tests.contract.schedule_examples import FIRING, SCHEDULE
from tests.contract.summary_examples import SUMMARIES, SUMMARY
from tests.contract.template_examples import DEPLOYMENT, TEMPLATE
from tests.servers import PostgresServer

CHECKOUT = Path(__file__).resolve().parents[2]
PASSWORDS = {name: f"of {name}" for name in names()}
AGENT_FOLDERS = agent_folders_id(AGENT)
# What happens to one aggregate after the other, by the examples of the events.
STORIES: dict[str, list[list[type[Event]]]] = {
    "memory": [
        [BlockCreated, BlockChanged],
        [BlockCreated],
        [ArchiveCreated, ArchiveChanged, ArchiveAttached, ArchiveDetached],
        [ArchiveCreated, ArchiveDeleted],
        [ArchiveCreated, ArchiveEmbeddingChanged],
        [ArchiveCreated, ArchiveEmbeddingChanged, ArchiveReembedded],
        [PassageCreated],
        [PassageCreated, PassageEmbedded],
        [PassageCreated, PassageDeleted],
        [FolderCreated, FolderChanged],
        [FolderCreated, FolderDeleted],
        [FolderCreated, FolderEmbeddingChanged],
        [FolderCreated, FolderEmbeddingChanged, FolderReembedded],
        [FileAdded, FileParsed, FileShown, FileChunksEmbedded, FileChunksReembedded, FileCompleted],
        [FileAdded, FileDelayed, FileFailed],
        [FileAdded, FileDeleted],
        [FolderAttached, FilesOpened],
        [FolderAttached, FilesOpened, FolderDetached],
    ],
    "api": [
        [IdentityCreated, IdentityChanged],
        [IdentityCreated, IdentityDeleted],
        [ProjectCreated, ProjectChanged],
        [ProjectCreated, ProjectDeleted],
        [ProjectCreated, ProjectDeleted, ProjectEmptied],
        [ImportRequested, ImportValidated, ImportDelayed, ImportProgressed, ImportCompleted],
        [ImportRequested, ImportValidated, ImportAbandoned, ImportUndone],
        [ImportRequested, ImportValidated, ImportCancelled, ImportUndone],
        [ImportRequested, ImportValidated, ImportCompleted, ImportForgotten],
        [RestoreRequested, RestoreDelayed, RestoreCompleted],
        [RestoreRequested, RestoreRefused, RestoreUndone],
        [ConfigurationApplied, ConfigurationRejected, ConfigurationApplied],
        [ConfigurationRejected, ConfigurationApplied, ConfigurationRejected],
        [ConfigurationApplied, ConfigurationDeleted],
        [FleetCreated, FleetRenamed, FleetApplyStarted, FleetUnitEnded, FleetApplyEnded],
        [FleetCreated, FleetApplyStarted, FleetUnitEnded, FleetMemberReleased],
        [FleetCreated, FleetApplyStarted, FleetUnitEnded, FleetApplyEnded, FleetDeleted],
        [AttachmentMade],
        [AttachmentMade, AttachmentRemoved],
        [TemplateCreated, TemplateVersionSaved, TemplateChanged, TemplateRenamed],
        [TemplateCreated, TemplateVersionSaved, TemplateDeleted],
        [DeploymentStarted, DeploymentCompleted],
        [DeploymentStarted, DeploymentCompleted, MigrationStarted, MigrationEnded],
        [DeploymentStarted, DeploymentRefused, DeploymentUndone],
        [DeploymentStarted, DeploymentCompleted, DeploymentEnded],
    ],
    "tools": [
        [ToolCreated, ToolChanged],
        [ToolCreated],
        [ToolRunBegun, ToolRunEnded],
        [ToolRunBegun, ToolRunStopped],
        [ToolRunBegun, ToolRunLost],
        [ToolRunBegun, ToolRunEnded, ToolRunForgotten],
        [ToolRunRefused],
        [ToolPermissionsChanged],
        [SandboxConfigChanged, SandboxVariableSet, PackagesRecreated],
        [McpServerCreated, McpToolsDiscovered],
        [McpServerCreated],
        [ToolRunBegun],
    ],
    "agent": [
        [AgentCreated],
        [MessageAppended, RunAccepted, RunStarted, ModelReplied, MessageAppended, RunCompleted],
        [RunAccepted, QueuedRunsCancelled],
        [ConversationCreated, ConversationUpdated],
        [MessageAppended, RunAccepted, HeartbeatsPaused, ConversationDeleted],
        [HeartbeatsPaused],
        [RunAccepted, CallbackAttempted],
        [BatchAccepted, BatchItemsStarted, BatchItemEnded, BatchCancelled, BatchCompleted],
        [RunAccepted, ApprovalRequested],
        [SummaryRequested, SummaryPartWritten, SummaryWritten, SummaryArchived],
        [SummaryRequested, SummaryFailed],
        [SummaryRequested, SummariesDeleted],
        [RunReplayRequested, RunReplayAdvanced, RunReplayStepCompared, RunReplayCompleted],
        [RunReplayRequested, RunReplayFailed],
        [BatchAccepted, BatchItemsStarted, BatchItemEnded, BatchCancelled, BatchCompleted],
    ],
    "scheduler": [
        [ScheduleCreated, FiringStarted, FiringFailed, FiringRetried, FiringDeadLettered],
        [ScheduleCreated, SlotsSkipped, SchedulePaused, ScheduleResumed, ScheduleUpdated],
        [ScheduleCreated, FiringStarted, FiringEnded],
        [ScheduleCreated, FiringStarted, ScheduleDeleted],
    ],
    "groups": [
        [
            GroupCreated,
            GroupUpdated,
            MemberAdded,
            GroupBlockAttached,
            MemberBlocksChanged,
            GroupStateUpdated,
            MemberRemoved,
            GroupBlockDetached,
        ],
        [GroupCreated, MemberBlocksChanged, GroupDeleted],
        [GroupCreated, RunCounted, ReviewRequested],
        [GroupCreated, ReviewRequested, ReviewStarted],
        [
            GroupRunAccepted,
            GroupRunStarted,
            GroupMessageAppended,
            GroupHopStarted,
            GroupHopEnded,
            GroupMessageEdited,
            GroupRunCompleted,
        ],
        [GroupRunAccepted],
        [RoutedMessageAccepted, MessageRouted, MessageDelivered, RoutedMessageCompleted],
        [AgentSubscribed],
        [GroupRunAccepted, GroupTranscriptEmptied],
    ],
}
ODD: Any = {"large": 1e308, "exact": 10**20, "small": 1e-7, "text": "é\u2028\U0001f600", "": [{}]}


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    """A database of its own with all tables."""
    return postgres_server.create_migrated_database("rebuilt_services")


def story(number: int, kinds: list[type[Event]]) -> Iterator[Event]:
    """Examples of these events, a tenth of a second apart, as the events of one aggregate."""
    for version, kind in enumerate(kinds, 1):
        [example, *_] = [event for event in EVENTS if type(event) is kind]
        text = example.model_dump_json().replace("message-66666666", f"message-6666666{number}")
        for known in (
            AGENT,
            BLOCK,
            CONVERSATION,
            MCP_SERVER,
            RUN,
            TOOL,
            TOOL_RUN,
            ARCHIVE,
            PASSAGE,
            FOLDER,
            FILE,
            AGENT_FOLDERS,
            GROUP,
            SCHEDULE,
            FIRING,
            SUMMARIES,
            SUMMARY,
            REPLAY,
            GROUP_RUN,
            ROUTED,
            TOPIC,
            GROUP_CONVERSATION,
            BATCH,
            IDENTITY,
            PROJECT,
            ATTACHMENT,
            TEMPLATE,
            DEPLOYMENT,
            IMPORT,
            RESTORE,
            RESTORES,
            CONFIGURATION,
            FLEET,
            APPLY,
        ):
            text = text.replace(known, f"{known[:-1]}{number}")
        event = kind.model_validate_json(text).model_copy(
            update={
                "originator_version": version,
                "timestamp": example.timestamp + timedelta(seconds=version / 10),
            }
        )
        if isinstance(event, RunAccepted):
            run = event.run.model_copy(update={"callback_url": "https://hooks.example/"})
            event = event.model_copy(update={"run": run})
        if isinstance(event, AgentCreated):
            able = [Capability(name="translate")]
            config = event.config.model_copy(update={"capabilities": able})
            event = event.model_copy(update={"config": config})
        if isinstance(event, BlockCreated):
            block = event.block.model_copy(update={"metadata": ODD})
            event = event.model_copy(update={"block": block})
        if isinstance(event, ArchiveCreated | PassageCreated):
            event = event.model_copy(update={"metadata": ODD})
        if isinstance(event, ToolCreated):
            tool = event.tool.model_copy(update={"metadata_": ODD})
            event = event.model_copy(update={"tool": tool})
        yield event


async def live(url: str, service: str) -> None:
    """Commit the stories as the service does, each event by itself."""
    models = read_models(service)
    async with open_pool(url) as pool:
        store = PostgresEventStore(Database(pool), service, "test")
        for number, kinds in enumerate(STORIES[service]):
            for event in story(number, kinds):
                commit = Commit([stored(event)])
                models.project(event, DEFAULT_ORG, commit.rows)
                await store.commit(commit)


def stored(event: Event) -> NewEvent:
    return NewEvent(
        event.originator_id,
        event.originator_version,
        event.topic,
        event.schema_version,
        DEFAULT_ORG,
        event.about,
        event.payload_json(),
        {"actor": "", "command_id": "c-1"},
        event.timestamp,
    )


def migrated(url: str) -> subprocess.CompletedProcess[str]:
    """What `python -m deploy.migrate` says."""
    environment = {
        **os.environ,
        "HEELER_ADMIN_DATABASE_URL": url,
        "HEELER_SERVICE_PASSWORDS": json.dumps(PASSWORDS),
    }
    return subprocess.run(
        [sys.executable, "-m", "deploy.migrate"],
        cwd=CHECKOUT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )


Rebuild = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rebuild(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Rebuild:
    """`python -m deploy.rebuild` in this process: its exit code, and what it printed."""
    monkeypatch.setenv("HEELER_ADMIN_DATABASE_URL", url)

    def run(*words: str) -> tuple[int, str, str]:
        try:
            code = main(words)
        except SystemExit as end:
            code = int(str(end.code))
        return code, *capsys.readouterr()

    return run


def dump(url: str, service: str) -> dict[str, list[Any]]:
    with psycopg.connect(url) as connection:
        found = {}
        for table in read_models(service).tables:
            query = f"select t::text from {service}.{table.name} t order by {', '.join(table.key)}"
            found[table.name] = connection.execute(query.encode()).fetchall()
        return found


@pytest.mark.parametrize("service", owners())
async def test_what_commits_wrote_and_what_a_rebuild_writes_is_the_same_to_the_byte(
    service: str, url: str, rebuild: Rebuild
) -> None:
    await live(url, service)
    before = dump(url, service)
    assert all(before.values()), f"no rows in {[name for name in before if not before[name]]}"
    assert rebuild("--check")[0] == 0

    names = ", ".join(f"{service}.{table}" for table in before)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"truncate {names}".encode())
    code, out, _ = rebuild("--check", "--service", service)
    assert (code, "rows that differ: " in out) == (1, True)
    code, out, problems = rebuild("--service", service)
    assert (code, problems) == (0, "")
    rows = ", ".join(f"{len(rows)} in {table}" for table, rows in sorted(before.items()))
    assert f"rows changed: {rows};" in out
    assert dump(url, service) == before


@pytest.mark.parametrize("service", owners())
def test_every_read_model_is_found_by_its_aggregate(service: str, migrated_url: str) -> None:
    query = (
        "select 1 from pg_index i join pg_attribute a on a.attrelid = i.indrelid"
        " and a.attnum = i.indkey[0] where i.indrelid = %s::regclass and a.attname = %s"
        " and i.indpred is null"
    )
    with psycopg.connect(migrated_url) as connection:
        for table in read_models(service).tables:
            name = f"{service}.{table.name}"
            assert connection.execute(query, [name, table.aggregate]).fetchone(), name


async def test_a_rebuild_that_a_migration_asks_for_is_done_before_the_services_start(
    url: str,
) -> None:
    await live(url, "memory")
    before = dump(url, "memory")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update memory.blocks set metadata = null")
        connection.execute("insert into memory.rebuilds values ('blocks') on conflict do nothing")
        done = migrated(url)
        assert (done.returncode, done.stderr) == (0, "")
        assert "rows changed: 2 in blocks" in done.stdout
        assert connection.execute("select * from memory.rebuilds").fetchall() == []
        assert "rows changed" not in migrated(url).stdout
    assert dump(url, "memory") == before


RELATIONS = """
select c.relname, c.relkind, array(
    select format('%%s %%s', grantee::regrole, privilege_type) from aclexplode(c.relacl)
    where privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE') order by 1)
from pg_class c
where c.relnamespace = to_regnamespace(%s) and c.relkind in ('r', 'v') order by 1"""


@pytest.mark.parametrize("service", owners())
def test_read_models_that_were_dropped_come_back_with_all_views_and_rights(
    url: str, service: str, rebuild: Rebuild
) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        before = connection.execute(RELATIONS, [service]).fetchall()
        for table in read_models(service).tables:
            connection.execute(f"drop table {service}.{table.name} cascade".encode())
        code, _, problems = rebuild("--service", service)
        assert code == 0, problems
        assert connection.execute(RELATIONS, [service]).fetchall() == before


def test_a_table_that_is_no_read_model_is_refused(rebuild: Rebuild) -> None:
    code, _, problems = rebuild("--service", "agent", "--table", "models")
    assert code == 1
    known = ", ".join(table.name for table in read_models("agent").tables)
    assert f"agent has no read model 'models', but {known}" in problems
    code, _, problems = rebuild("--table", "messages")
    assert (code, "name the service" in problems) == (2, True)

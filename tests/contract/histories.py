"""A history of each aggregate, in which each of its events happens, made of the examples."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any

from libs.contracts.agent.agents import (
    AgentAbandoned,
    AgentCreated,
    AgentDeleted,
    AgentForked,
    AgentSecretsReplaced,
    AgentUpdated,
    BlockAttached,
    BlockDetached,
)
from libs.contracts.agent.approvals import (
    ApprovalAnswered,
    ApprovalCancelled,
    ApprovalExpired,
    ApprovalRequested,
    RecordedAnswer,
    ToolCallReturned,
)
from libs.contracts.agent.batches import (
    BatchAccepted,
    BatchCallbackAttempted,
    BatchCancelled,
    BatchCompleted,
    BatchItemEnded,
    BatchItemsStarted,
)
from libs.contracts.agent.compaction import (
    ContextCleared,
    ContextReplaced,
    ConversationCompacted,
    RetriedContentRefused,
)
from libs.contracts.agent.conversations import (
    ConversationCreated,
    ConversationDeleted,
    ConversationUpdated,
    MessageAppended,
    SystemPromptRebuilt,
)
from libs.contracts.agent.runs import (
    CallbackAttempted,
    HeartbeatPauseCancelled,
    HeartbeatsPaused,
    HeartbeatsResumed,
    QueuedRunsCancelled,
    ReviewableRunEnded,
    RunAccepted,
    RunCancelled,
    RunCompleted,
    RunDeleted,
    RunFailed,
    RunStarted,
)
from libs.contracts.agent.steps import (
    ModelReplied,
    StepAnnotated,
    ToolCallFinished,
    ToolCallForbidden,
    ToolCallInterrupted,
    ToolCallRefused,
    ToolCallsStarted,
    ToolCallStarted,
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
from libs.contracts.api.identities import (
    IdentityChanged,
    IdentityCreated,
    IdentityDeleted,
    IdentityKeyFreed,
    IdentityKeyTaken,
)
from libs.contracts.api.imports import (
    ImportAbandoned,
    ImportCancelled,
    ImportCompleted,
    ImportDelayed,
    ImportedAgentTaken,
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
    ProjectNameFreed,
    ProjectNameTaken,
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
    TemplateNameFreed,
    TemplateNameTaken,
    TemplateRenamed,
    TemplateVersionSaved,
)
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import Event, JsonObject
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
    DeliveryFailed,
    MessageDelivered,
    MessageRouted,
    RoutedMessageAccepted,
    RoutedMessageCompleted,
    RoutedMessageFailed,
)
from libs.contracts.groups.sleeptime import ReviewRequested, ReviewStarted, RunCounted
from libs.contracts.groups.topics import AgentSubscribed, AgentUnsubscribed
from libs.contracts.letta.tool_rules import InitToolRule, RequiresApprovalToolRule
from libs.contracts.memory.agent_folders import (
    FilesClosed,
    FilesOpened,
    FolderAttached,
    FolderDetached,
)
from libs.contracts.memory.archives import (
    ArchiveAttached,
    ArchiveChanged,
    ArchiveCreated,
    ArchiveDeleted,
    ArchiveDetached,
    ArchiveEmptied,
    PassageCreated,
    PassageDeleted,
)
from libs.contracts.memory.blocks import BlockChanged, BlockCreated, BlockDeleted
from libs.contracts.memory.files import (
    FileAdded,
    FileChunksEmbedded,
    FileCompleted,
    FileDelayed,
    FileDeleted,
    FileFailed,
    FileNameFreed,
    FileNameTaken,
    FileParsed,
    FileShown,
)
from libs.contracts.memory.folders import (
    FolderChanged,
    FolderCreated,
    FolderDeleted,
    FolderNameFreed,
    FolderNameTaken,
)
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
    ScheduleCompleted,
    ScheduleCreated,
    ScheduleDeleted,
    SchedulePaused,
    ScheduleResumed,
    ScheduleUpdated,
    SlotsSkipped,
)
from libs.contracts.tools.mcp_authorizations import (
    McpAuthorizationAnswered,
    McpAuthorizationRequested,
    McpServerAuthorized,
)
from libs.contracts.tools.mcp_servers import (
    McpDiscoveryFailed,
    McpDiscoveryRequested,
    McpServerChanged,
    McpServerCreated,
    McpServerDeleted,
    McpServerNameFreed,
    McpServerNameTaken,
    McpToolsDiscovered,
)
from libs.contracts.tools.sandbox_configs import (
    PackagesRecreated,
    SandboxConfigChanged,
    SandboxConfigDeleted,
    SandboxVariableDeleted,
    SandboxVariableSet,
)
from libs.contracts.tools.tool_permissions import ToolPermissionsChanged
from libs.contracts.tools.tool_runs import (
    ToolRunBegun,
    ToolRunEnded,
    ToolRunForgotten,
    ToolRunLost,
    ToolRunRefused,
    ToolRunSampled,
    ToolRunStopped,
)
from libs.contracts.tools.tools import (
    ToolChanged,
    ToolCreated,
    ToolDeleted,
    ToolNameFreed,
    ToolNameTaken,
)
from services.agent.domain.agents.agent import Agent
from services.agent.domain.batches.batch import Batch
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.replays.run_replay import RunReplay
from services.agent.domain.summaries.agent_summaries import AgentSummaries
from services.api.domain.agent_import import AgentImport
from services.api.domain.agent_restore import AgentRestores
from services.api.domain.attachment import Attachment
from services.api.domain.configuration import Configuration
from services.api.domain.deployment import Deployment
from services.api.domain.fleet import Fleet
from services.api.domain.identity import Identity
from services.api.domain.imported_agent import ImportedAgent
from services.api.domain.name_reservations import IdentityKey, ProjectName
from services.api.domain.project import Project
from services.api.domain.template import Template, TemplateName
from services.groups.domain.conversations.group_conversation import GroupConversation
from services.groups.domain.group import Group
from services.groups.domain.routed_message import RoutedMessage
from services.groups.domain.topic import Topic
from services.memory.domain.agent_folders import AgentFolders
from services.memory.domain.archive import Archive
from services.memory.domain.block import Block
from services.memory.domain.file import File
from services.memory.domain.folder import Folder
from services.memory.domain.name_reservations import FileName, FolderName
from services.memory.domain.passage import Passage
from services.scheduler.domain.schedule import Schedule
from services.tools.domain.mcp_authorization import McpAuthorization
from services.tools.domain.mcp_server import McpServer
from services.tools.domain.name_reservations import McpServerName, ToolName
from services.tools.domain.sandbox_config import SandboxConfig
from services.tools.domain.tool import Tool
from services.tools.domain.tool_permissions import ToolPermissions
from services.tools.domain.tool_run import ToolRun
from tests.contract import replay_examples, summary_examples
from tests.contract.batch_examples import ANSWERED
from tests.contract.batch_examples import FAILED as FAILED_ITEM
from tests.contract.examples import (
    AT,
    CALL,
    CALLED,
    CLIENT_SKILL,
    CLIENT_TOOL,
    COPY,
    EVENTS,
    RETURNED,
    RUN_CONFIG,
    SAID,
    SYSTEM,
    message,
)
from tests.contract.fleet_examples import OUTCOME
from tests.contract.group_run_histories import FORGOTTEN, GROUP_CONVERSATION, UNDER_WAY

FAILING, CUT, WAITING = "run-failing", "run-cut", "run-waiting"
COMPACTING = "run-compacting"
EXAMPLES = {type(event): event for event in EVENTS}
SECOND_CALL = CALL.model_copy(update={"id": "call_2"})
THIRD_CALL = CALL.model_copy(update={"id": "call_3", "name": "memory_replace"})
HELD = RETURNED.model_copy(update={"id": "message-held", "tool_call_id": SECOND_CALL.id})
RULES = [InitToolRule(tool_name=CALL.name)]
GATES = [RequiresApprovalToolRule(tool_name=CALL.name)]


def one[E: Event](kind: type[E], **fields: Any) -> E:
    """The example of an event, with some other fields."""
    return EXAMPLES[kind].model_copy(update=fields)  # type: ignore[return-value]


# What few requests bring, or none.
PLAIN: dict[str, Any] = {
    "options": None,
    "client_tools": [],
    "client_skills": [],
    "callers": [],
    "compaction": None,
}


def accepted(run_id: str, **fields: Any) -> RunAccepted:
    run = RUN_CONFIG.model_copy(update={"id": run_id})
    return one(RunAccepted, run_id=run_id, run=run, **{**PLAIN, **fields})


GATED = [call.model_copy(update={"gated": True}) for call in (CALL, SECOND_CALL)]
RESPONSE = message(7, role="approval", content=[], request_id="message-3")
RETURN = RecordedAnswer(
    tool_call_id=SECOND_CALL.id, kind="returned", content="README.md", arguments_hash="hash"
)


def asks(run_id: str) -> list[Event]:
    """A run whose calls wait for the client."""
    return [
        accepted(
            run_id, tool_rules=GATES, client_tools=[CLIENT_TOOL], client_skills=[CLIENT_SKILL]
        ),
        one(RunStarted, run_id=run_id),
        one(ModelReplied, run_id=run_id, tool_calls=GATED),
        one(ApprovalRequested, run_id=run_id),
        one(RunCompleted, run_id=run_id, stop_reason="requires_approval"),
    ]


CONVERSATION = [
    one(MessageAppended, message=SYSTEM, run_id=None, number=None, chunks=None, shows={"b": 1}),
    accepted(RUN_CONFIG.id, retry=True, tool_rules=RULES),
    accepted(FAILING, options=EXAMPLES[RunAccepted].options),  # type: ignore[attr-defined]
    one(RunStarted),
    one(MessageAppended, message=SAID, number=None, chunks=None, sent=True),
    one(ModelReplied, tool_calls=[CALL, SECOND_CALL, THIRD_CALL], offered=[CALL.name]),
    one(MessageAppended),
    one(ToolCallStarted),
    one(ToolCallFinished),
    one(MessageAppended, message=RETURNED, number=None, chunks=None),
    one(ToolCallStarted, tool_call_id=SECOND_CALL.id),
    one(ToolCallInterrupted, tool_call_id=SECOND_CALL.id),
    one(ToolCallRefused, tool_call_id=THIRD_CALL.id, tool=THIRD_CALL.name),
    one(
        ModelReplied,
        tool_calls=[CALL, SECOND_CALL, THIRD_CALL],
        concurrent=[CALL.id, SECOND_CALL.id, THIRD_CALL.id],
    ),
    one(MessageAppended, chunks=None, number=20),
    one(ToolCallsStarted),
    one(ToolCallFinished, tool_call_id=SECOND_CALL.id, held=HELD),
    one(ToolCallStarted, tool_call_id=THIRD_CALL.id),
    one(ToolCallFinished),
    one(MessageAppended, message=RETURNED, number=None, chunks=None),
    one(MessageAppended, message=HELD, number=None, chunks=None),
    one(ToolCallFinished, tool_call_id=THIRD_CALL.id),
    one(MessageAppended, message=RETURNED, number=None, chunks=None),
    one(HeartbeatsPaused),
    one(HeartbeatsResumed),
    one(HeartbeatsPaused),
    one(HeartbeatPauseCancelled),
    one(HeartbeatsPaused, minutes=60),
    one(SystemPromptRebuilt),
    one(ModelReplied, tool_calls=[], finish_reason="stop"),
    one(RunCompleted),
    one(ReviewableRunEnded),
    one(RunStarted, run_id=FAILING),
    one(
        MessageAppended,
        message=message(5, role="user", content="What no model takes"),
        run_id=FAILING,
        number=None,
        chunks=None,
        sent=True,
    ),
    one(RunFailed, run_id=FAILING, error_type="llm_bad_request"),
    accepted("run-again"),
    one(RunStarted, run_id="run-again"),
    one(ModelReplied, run_id="run-again", tool_calls=[], finish_reason="stop"),
    one(RunCompleted, run_id="run-again"),
    accepted("run-tries"),
    one(RunStarted, run_id="run-tries"),
    one(RetriedContentRefused, run_id="run-tries"),
    one(ModelReplied, run_id="run-tries", tool_calls=[], finish_reason="stop"),
    one(RunCompleted, run_id="run-tries"),
    accepted(COMPACTING, messages=[], compaction={"mode": "all"}),
    one(RunStarted, run_id=COMPACTING),
    one(ConversationCompacted, run_id=COMPACTING, evicted=[SAID.id, CALLED.id, RETURNED.id]),
    one(RunCompleted, run_id=COMPACTING),
    one(ContextCleared),
    one(ContextReplaced),
    accepted(CUT),
    accepted(WAITING),
    one(RunStarted, run_id=CUT),
    one(QueuedRunsCancelled, run_ids=[WAITING]),
    one(RunCancelled, run_id=CUT),
    one(CallbackAttempted),
    one(StepAnnotated),
    one(ToolCallForbidden),
    one(RunDeleted),
    *asks("run-asks"),
    accepted("run-part", messages=[SAID], answers=True),
    one(RunStarted, run_id="run-part"),
    one(ApprovalAnswered, run_id="run-part"),
    one(RunCompleted, run_id="run-part", stop_reason="requires_approval"),
    accepted("run-rest", messages=[SAID], answers=True),
    one(RunStarted, run_id="run-rest"),
    one(MessageAppended, message=RESPONSE, number=None, chunks=None, sent=True),
    one(ApprovalAnswered, run_id="run-rest", answers=[RETURN], waiting=[]),
    one(ToolCallReturned, run_id="run-rest"),
    one(ToolCallStarted, run_id="run-rest"),
    one(ToolCallFinished, run_id="run-rest"),
    one(MessageAppended, message=SAID, run_id="run-rest", number=None, chunks=None, sent=True),
    one(RunCompleted, run_id="run-rest"),
    *asks("run-late"),
    one(ApprovalExpired, run_id="run-late"),
    *asks("run-unwanted"),
    one(ApprovalCancelled, run_id="run-unwanted"),
    one(ConversationDeleted),
]
BESIDE = [
    one(ConversationCreated),
    one(
        MessageAppended,
        message=SYSTEM,
        run_id=None,
        step_id=None,
        number=None,
        chunks=None,
        shows={"b": 1},
    ),
    one(ConversationUpdated),
    one(ConversationDeleted, own_block_ids=[COPY]),
]
AGENT = [
    one(AgentCreated),
    one(AgentSecretsReplaced),
    one(AgentForked),
    one(AgentUpdated),
    one(BlockAttached),
    one(BlockDetached),
    one(AgentDeleted),
]
BATCH = [
    one(BatchAccepted),
    one(BatchItemsStarted, numbers=[0, 1]),
    one(BatchItemEnded, outcome=ANSWERED),
    one(BatchItemsStarted, numbers=[2]),
    one(BatchItemEnded, outcome=FAILED_ITEM.model_copy(update={"number": 2})),
    one(BatchItemEnded, outcome=ANSWERED.model_copy(update={"number": 1})),
    one(BatchCompleted, status="completed"),
    one(BatchCallbackAttempted),
]
CANCELLED_BATCH = [
    one(BatchAccepted),
    one(BatchItemsStarted, numbers=[0]),
    one(BatchCancelled, numbers=[1, 2]),
    one(BatchItemEnded, outcome=ANSWERED),
    one(BatchCompleted),
]
ABANDONED = [one(AgentAbandoned)]
TOOL = [one(ToolCreated), one(ToolChanged), one(ToolDeleted)]
TOOL_NAME = [one(ToolNameTaken), one(ToolNameFreed)]
TOOL_RUN = [one(ToolRunBegun), one(ToolRunSampled), one(ToolRunEnded)]
STOPPED_TOOL_RUN = [one(ToolRunBegun), one(ToolRunStopped)]
FORGOTTEN_TOOL_RUN = [one(ToolRunBegun), one(ToolRunEnded), one(ToolRunForgotten)]
LOST_TOOL_RUN = [one(ToolRunBegun), one(ToolRunLost)]
REFUSED_TOOL_RUN = [one(ToolRunRefused)]
TOOL_PERMISSIONS = [one(ToolPermissionsChanged)]
SANDBOX_CONFIG = [
    one(SandboxConfigChanged),
    one(SandboxVariableSet),
    one(PackagesRecreated),
    one(SandboxVariableDeleted),
    one(SandboxVariableSet),
]
DELETED_SANDBOX_CONFIG = [one(SandboxConfigChanged), one(SandboxConfigDeleted)]
MCP_SERVER = [
    one(McpServerCreated),
    one(McpDiscoveryFailed),
    one(McpToolsDiscovered, removed=[]),
    one(McpServerChanged),
    one(McpToolsDiscovered, removed=[]),
    one(McpDiscoveryRequested),
    one(McpServerAuthorized),
]
MCP_AUTHORIZATION = [one(McpAuthorizationRequested), one(McpAuthorizationAnswered)]
DELETED_MCP_SERVER = [one(McpServerCreated), one(McpServerDeleted)]
MCP_SERVER_NAME = [one(McpServerNameTaken), one(McpServerNameFreed)]
BLOCK = [one(BlockCreated), one(BlockChanged), one(BlockDeleted)]
ARCHIVE = [
    one(ArchiveCreated),
    one(ArchiveChanged),
    one(ArchiveAttached),
    one(ArchiveDetached),
    one(ArchiveEmbeddingChanged),
    one(ArchiveReembedded),
    one(ArchiveDeleted),
    one(ArchiveEmptied),
]
PASSAGE = [one(PassageCreated), one(PassageEmbedded), one(PassageDeleted)]

FOLDER = [
    one(FolderCreated),
    one(FolderChanged),
    one(FolderEmbeddingChanged),
    one(FolderReembedded),
    one(FolderDeleted),
]
FOLDER_NAME = [one(FolderNameTaken), one(FolderNameFreed)]
FILE_NAME = [one(FileNameTaken), one(FileNameFreed)]
FILE = [
    one(FileAdded),
    one(FileParsed),
    one(FileShown),
    one(FileDelayed),
    one(FileChunksEmbedded),
    one(FileChunksReembedded),
    one(FileCompleted),
    one(FileDeleted),
]
FAILED_FILE = [one(FileAdded), one(FileFailed)]
AGENT_FOLDERS = [
    one(FolderAttached),
    one(FilesOpened),
    one(FilesClosed),
    one(FilesOpened),
    one(FolderDetached, closed=[]),
]

OTHER = {"firing_id": "firing-2"}
SCHEDULE = [
    one(ScheduleCreated),
    one(SlotsSkipped),
    one(SchedulePaused),
    one(ScheduleResumed),
    one(FiringStarted),
    one(FiringFailed, postponed=True),
    one(FiringRetried, attempt=1),
    one(FiringFailed),
    one(FiringRetried),
    one(FiringDeadLettered),
    one(FiringRetried, attempt=3),
    one(FiringEnded, forgets=""),
    one(FiringStarted, **OTHER, by_hand=True),
    one(FiringFailed, **OTHER),
    one(ScheduleUpdated),
    one(ScheduleCompleted),
]
DELETED_SCHEDULE = [one(ScheduleCreated), one(ScheduleDeleted)]
GROUP = [
    one(GroupCreated),
    one(GroupUpdated),
    one(MemberAdded),
    one(GroupBlockAttached),
    one(MemberBlocksChanged),
    one(GroupStateUpdated),
    one(RunCounted),
    one(ReviewRequested),
    one(ReviewStarted),
    one(RunCounted, run_id="run-next", turns_counter=1),
    one(ReviewRequested),
    one(GroupBlockDetached),
    one(MemberRemoved),
    one(GroupDeleted),
]

ROUTED_MESSAGE = [
    one(RoutedMessageAccepted),
    one(MessageRouted),
    one(MessageDelivered),
    one(RoutedMessageCompleted),
]
FAILED_ROUTED_MESSAGE = [
    one(RoutedMessageAccepted),
    one(MessageRouted),
    one(DeliveryFailed),
    one(RoutedMessageFailed),
]
TOPIC = [one(AgentSubscribed), one(AgentUnsubscribed)]
IDENTITY = [one(IdentityCreated), one(IdentityChanged), one(IdentityDeleted)]
IMPORT = [
    one(ImportRequested),
    one(ImportValidated),
    one(ImportDelayed),
    one(ImportProgressed),
    one(ImportCompleted),
]
FAILED_IMPORT = [
    one(ImportRequested),
    one(ImportValidated),
    one(ImportAbandoned),
    one(ImportUndone),
]
RESTORES = [
    one(RestoreRequested),
    one(RestoreDelayed),
    one(RestoreCompleted),
    one(RestoreRequested),
    one(RestoreRefused),
    one(RestoreUndone),
]
CONFIGURATION = [one(ConfigurationApplied), one(ConfigurationRejected)]
DELETED_CONFIGURATION = [*CONFIGURATION, one(ConfigurationDeleted)]
FLEET = [
    one(FleetCreated),
    one(FleetRenamed),
    one(FleetApplyStarted),
    one(FleetUnitEnded),
    one(FleetUnitEnded, outcome=OUTCOME.model_copy(update={"number": 1})),
    one(FleetMemberReleased),
    one(FleetApplyEnded),
]
APPLYING_FLEET = [one(FleetCreated), one(FleetApplyStarted), one(FleetUnitEnded)]
DELETED_FLEET = [*FLEET, one(FleetDeleted)]
CANCELLED_IMPORT = [one(ImportRequested), one(ImportCancelled, undoes=False)]
FORGOTTEN_IMPORT = [*FAILED_IMPORT, one(ImportForgotten)]
IDENTITY_KEY = [one(IdentityKeyTaken), one(IdentityKeyFreed)]
PROJECT = [one(ProjectCreated), one(ProjectChanged), one(ProjectDeleted), one(ProjectEmptied)]
PROJECT_NAME = [one(ProjectNameTaken), one(ProjectNameFreed)]
ATTACHMENT = [one(AttachmentMade), one(AttachmentRemoved)]
TEMPLATE = [
    one(TemplateCreated),
    one(TemplateVersionSaved),
    one(TemplateChanged),
    one(TemplateRenamed),
]
DELETED_TEMPLATE = [*TEMPLATE, one(TemplateDeleted)]
TEMPLATE_NAME = [one(TemplateNameTaken), one(TemplateNameFreed)]
DEPLOYMENT = [
    one(DeploymentStarted),
    one(DeploymentCompleted),
    one(MigrationStarted),
    one(MigrationEnded),
]
REFUSED_DEPLOYMENT = [one(DeploymentStarted), one(DeploymentRefused), one(DeploymentUndone)]
ENDED_DEPLOYMENT = [*REFUSED_DEPLOYMENT, one(DeploymentEnded)]

HISTORIES: dict[str, tuple[type[Aggregate[Any]], list[Event]]] = {
    "Agent": (Agent, [*AGENT]),
    "Agent.abandoned": (Agent, [*ABANDONED]),
    "Conversation": (Conversation, [*CONVERSATION]),
    "Conversation.beside": (Conversation, [*BESIDE]),
    "Batch": (Batch, [*BATCH]),
    "Batch.cancelled": (Batch, [*CANCELLED_BATCH]),
    "Block": (Block, [*BLOCK]),
    "Archive": (Archive, [*ARCHIVE]),
    "Passage": (Passage, [*PASSAGE]),
    "Group": (Group, [*GROUP]),
    "Schedule": (Schedule, [*SCHEDULE]),
    "Schedule.deleted": (Schedule, [*DELETED_SCHEDULE]),
    "RoutedMessage": (RoutedMessage, [*ROUTED_MESSAGE]),
    "RoutedMessage.failed": (RoutedMessage, [*FAILED_ROUTED_MESSAGE]),
    "Topic": (Topic, [*TOPIC]),
    "Identity": (Identity, [*IDENTITY]),
    "AgentImport": (AgentImport, [*IMPORT]),
    "AgentRestores": (AgentRestores, [*RESTORES]),
    "Configuration": (Configuration, [*CONFIGURATION]),
    "Configuration.deleted": (Configuration, [*DELETED_CONFIGURATION]),
    "Fleet": (Fleet, [*FLEET]),
    "Fleet.applying": (Fleet, [*APPLYING_FLEET]),
    "Fleet.deleted": (Fleet, [*DELETED_FLEET]),
    "AgentImport.failed": (AgentImport, [*FAILED_IMPORT]),
    "AgentImport.forgotten": (AgentImport, [*FORGOTTEN_IMPORT]),
    "AgentImport.cancelled": (AgentImport, [*CANCELLED_IMPORT]),
    "ImportedAgent": (ImportedAgent, [one(ImportedAgentTaken)]),
    "IdentityKey": (IdentityKey, [*IDENTITY_KEY]),
    "Project": (Project, [*PROJECT]),
    "ProjectName": (ProjectName, [*PROJECT_NAME]),
    "Attachment": (Attachment, [*ATTACHMENT]),
    "Template": (Template, [*TEMPLATE]),
    "Template.deleted": (Template, [*DELETED_TEMPLATE]),
    "TemplateName": (TemplateName, [*TEMPLATE_NAME]),
    "Deployment": (Deployment, [*DEPLOYMENT]),
    "Deployment.refused": (Deployment, [*REFUSED_DEPLOYMENT]),
    "Deployment.ended": (Deployment, [*ENDED_DEPLOYMENT]),
    "GroupConversation": (GroupConversation, [*GROUP_CONVERSATION]),
    "GroupConversation.under_way": (GroupConversation, [*UNDER_WAY]),
    "GroupConversation.forgotten": (GroupConversation, [*FORGOTTEN]),
    "Folder": (Folder, [*FOLDER]),
    "FolderName": (FolderName, [*FOLDER_NAME]),
    "FileName": (FileName, [*FILE_NAME]),
    "File": (File, [*FILE]),
    "File.failed": (File, [*FAILED_FILE]),
    "AgentFolders": (AgentFolders, [*AGENT_FOLDERS]),
    "AgentSummaries": (AgentSummaries, [*summary_examples.HISTORY]),
    "AgentSummaries.deleted": (AgentSummaries, [*summary_examples.DELETED_HISTORY]),
    "RunReplay": (RunReplay, [*replay_examples.HISTORY]),
    "RunReplay.running": (RunReplay, [*replay_examples.RUNNING_HISTORY]),
    "RunReplay.deleted": (RunReplay, [*replay_examples.DELETED_HISTORY]),
    "Tool": (Tool, [*TOOL]),
    "ToolName": (ToolName, [*TOOL_NAME]),
    "ToolRun": (ToolRun, [*TOOL_RUN]),
    "ToolRun.stopped": (ToolRun, [*STOPPED_TOOL_RUN]),
    "ToolRun.forgotten": (ToolRun, [*FORGOTTEN_TOOL_RUN]),
    "ToolRun.lost": (ToolRun, [*LOST_TOOL_RUN]),
    "ToolRun.refused": (ToolRun, [*REFUSED_TOOL_RUN]),
    "ToolPermissions": (ToolPermissions, [*TOOL_PERMISSIONS]),
    "SandboxConfig": (SandboxConfig, [*SANDBOX_CONFIG]),
    "SandboxConfig.deleted": (SandboxConfig, [*DELETED_SANDBOX_CONFIG]),
    "McpServer": (McpServer, [*MCP_SERVER]),
    "McpServer.deleted": (McpServer, [*DELETED_MCP_SERVER]),
    "McpAuthorization": (McpAuthorization, [*MCP_AUTHORIZATION]),
    "McpServerName": (McpServerName, [*MCP_SERVER_NAME]),
}


def numbered(events: list[Event]) -> Iterator[Event]:
    """The events one after the other, a second apart."""
    for version, event in zip(count(1), events):
        at = AT + timedelta(seconds=version)
        yield event.model_copy(update={"originator_version": version, "timestamp": at})


def state_of(aggregate: Aggregate[Any]) -> JsonObject:
    """The state of an aggregate, as a snapshot would hold it."""
    state: JsonObject = aggregate.state.model_dump(mode="json")
    return state

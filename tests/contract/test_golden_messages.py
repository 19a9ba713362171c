"""The language of the bus: what each message looks like, is called, and is about."""

from __future__ import annotations

import json
from inspect import cleandoc
from types import ModuleType

import pytest

from libs.contracts.agent import agents as agent
from libs.contracts.agent import compaction, runs, steps
from libs.contracts.agent import conversations as conversation
from libs.contracts.appended_histories import SERVICES_WITH_HISTORIES
from libs.contracts.bus_messages import COMMANDS, EVENTS, Command, Event, event_subject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory import blocks, files, folders
from libs.contracts.moments import SERVICES_WITH_MOMENTS
from libs.contracts.service_registry import names
from libs.contracts.tools import tools
from libs.contracts.tools.tool_permissions import permissions_id
from tests.contract import (
    agent_folder_examples,
    batch_examples,
    configuration_examples,
    examples,
    file_examples,
    fleet_examples,
    group_examples,
    group_run_examples,
    identity_examples,
    import_examples,
    project_examples,
    replay_examples,
    restore_examples,
    routing_examples,
    schedule_examples,
    sleeptime_examples,
    summary_examples,
    template_examples,
)
from tests.contract.archive_examples import ARCHIVE, PASSAGE, SEARCH
from tests.contract.golden import FOLDER, golden, path_of
from tests.contract.golden import text_of as golden_text

MODULES = (agent, compaction, conversation, runs, steps, files, folders, blocks, tools)
ORG = "org-1"
AGENT, BLOCK, RUN, LETTER = examples.AGENT, examples.BLOCK, examples.RUN, examples.LETTER
TOOL, TOOL_RUN, MCP_SERVER = examples.TOOL, examples.TOOL_RUN, examples.MCP_SERVER
SANDBOX, AUTHORIZATION = examples.SANDBOX_CONFIG, examples.MCP_AUTHORIZATION
CONVERSATION, BESIDE = examples.CONVERSATION, examples.BESIDE

SCOPE = derived_id("tool_permissions", "agent", AGENT)
SUBJECTS = {
    **batch_examples.SUBJECTS,
    **file_examples.SUBJECTS,
    **agent_folder_examples.SUBJECTS,
    **summary_examples.SUBJECTS,
    **replay_examples.SUBJECTS,
    **group_examples.SUBJECTS,
    **group_run_examples.SUBJECTS,
    **schedule_examples.SUBJECTS,
    **routing_examples.SUBJECTS,
    **sleeptime_examples.SUBJECTS,
    **identity_examples.SUBJECTS,
    **project_examples.SUBJECTS,
    **template_examples.SUBJECTS,
    **import_examples.SUBJECTS,
    **restore_examples.SUBJECTS,
    **configuration_examples.SUBJECTS,
    **fleet_examples.SUBJECTS,
    "CreateAgent": f"agent.command.agent.create.org-1.{AGENT}",
    "UpdateAgent": f"agent.command.agent.update.org-1.{AGENT}",
    "RestoreConfiguration": f"agent.command.agent.restore_configuration.org-1.{AGENT}",
    "DeleteAgent": f"agent.command.agent.delete.org-1.{AGENT}",
    "RecordFork": f"agent.command.agent.record_fork.org-1.{AGENT}",
    "AttachBlock": f"agent.command.agent.attach_block.org-1.{AGENT}",
    "AttachTool": f"agent.command.agent.attach_tool.org-1.{AGENT}",
    "CallTool": "agent.command.agent.call_tool.org-1.call_1",
    "DetachTool": f"agent.command.agent.detach_tool.org-1.{AGENT}",
    "DetachBlock": f"agent.command.agent.detach_block.org-1.{AGENT}",
    "StartRun": f"agent.command.run.start.org-1.{CONVERSATION}",
    "AnswerApproval": f"agent.command.approval.answer.org-1.{CONVERSATION}",
    "SetToolApproval": f"agent.command.agent.set_tool_approval.org-1.{AGENT}",
    "CancelRuns": f"agent.command.run.cancel.org-1.{CONVERSATION}",
    "AnnotateStep": f"agent.command.step.annotate.org-1.{CONVERSATION}",
    "DeleteRun": f"agent.command.run.delete.org-1.{CONVERSATION}",
    "CreateConversation": f"agent.command.conversation.create.org-1.{BESIDE}",
    "ForkConversation": f"agent.command.conversation.fork.org-1.{BESIDE}",
    "UpdateConversation": f"agent.command.conversation.update.org-1.{BESIDE}",
    "DeleteConversation": f"agent.command.conversation.delete.org-1.{BESIDE}",
    "RecompileConversation": f"agent.command.conversation.recompile.org-1.{BESIDE}",
    "PreviewSystemPrompt": f"agent.command.conversation.preview_system_prompt.org-1.{BESIDE}",
    "CompactConversation": f"agent.command.conversation.compact.org-1.{CONVERSATION}",
    "PreviewModelRequest": f"agent.command.model_request.preview.org-1.{CONVERSATION}",
    "ClearContext": f"agent.command.context.clear.org-1.{CONVERSATION}",
    "ShowLeftOut": f"agent.command.context.show_left_out.org-1.{CONVERSATION}",
    "ListLeftOut": f"agent.command.context.list_left_out.org-1.{CONVERSATION}",
    "ReplaceContext": f"agent.command.context.replace.org-1.{CONVERSATION}",
    "GenerateCompletion": "agent.command.completion.generate.org-1.completion-1",
    "AskModel": "agent.command.completion.ask.org-1.completion-3",
    "SampleModel": "agent.command.completion.sample.org-1.completion-2",
    "CreateBlocks": f"memory.command.blocks.create.org-1.{BLOCK}",
    "UpdateBlock": f"memory.command.block.update.org-1.{BLOCK}",
    "RewriteBlock": f"memory.command.block.rewrite.org-1.{BLOCK}",
    "EditBlock": f"memory.command.block.edit.org-1.{BLOCK}",
    "PatchBlock": f"memory.command.block.patch.org-1.{BLOCK}",
    "RenameBlock": f"memory.command.block.rename.org-1.{BLOCK}",
    "RestoreBlock": f"memory.command.block.restore.org-1.{BLOCK}",
    "DeleteBlock": f"memory.command.block.delete.org-1.{BLOCK}",
    **{
        f"{verb}Archive": f"memory.command.archive.{verb.lower()}.org-1.{ARCHIVE}"
        for verb in ("Create", "Update", "Delete", "Attach", "Detach", "Empty")
    },
    "InsertPassages": f"memory.command.passages.insert.org-1.{PASSAGE}",
    "DeletePassages": f"memory.command.passages.delete.org-1.{PASSAGE}",
    "ChangeArchiveEmbedding": f"memory.command.archive.change_embedding.org-1.{ARCHIVE}",
    "ReembedPassages": f"memory.command.passages.reembed.org-1.reembedding{ARCHIVE[7:]}",
    "ArchiveEmbeddingChanged": f"memory.event.archive.embedding_changed.org-1.{ARCHIVE}",
    "ArchiveReembedded": f"memory.event.archive.reembedded.org-1.{ARCHIVE}",
    "PassageEmbedded": f"memory.event.passage.embedded.org-1.{PASSAGE}",
    "NearestMessages": f"memory.command.messages.nearest.org-1.{SEARCH}",
    "SearchPassages": f"memory.command.passages.search.org-1.{SEARCH}",
    **{
        f"Archive{verb}": f"memory.event.archive.{verb.lower()}.org-1.{ARCHIVE}"
        for verb in ("Created", "Changed", "Attached", "Detached", "Deleted", "Emptied")
    },
    "PassageCreated": f"memory.event.passage.created.org-1.{PASSAGE}",
    "PassageDeleted": f"memory.event.passage.deleted.org-1.{PASSAGE}",
    "CreateTool": f"tools.command.tool.create.org-1.{TOOL}",
    "UpdateTool": f"tools.command.tool.update.org-1.{TOOL}",
    "DeriveToolSchema": "tools.command.tool_schema.derive.org-1.schema-1",
    "RunTool": f"tools.command.tool_run.begin.org-1.{TOOL_RUN}",
    "StopToolRun": f"tools.command.tool_run.stop.org-1.{TOOL_RUN}",
    "DeleteTool": f"tools.command.tool.delete.org-1.{TOOL}",
    "ToolCreated": f"tools.event.tool.created.org-1.{TOOL}",
    "ToolChanged": f"tools.event.tool.changed.org-1.{TOOL}",
    "ToolDeleted": f"tools.event.tool.deleted.org-1.{TOOL}",
    **{
        f"ToolRun{verb}": f"tools.event.tool_run.{verb.lower()}.org-1.{TOOL_RUN}"
        for verb in ("Begun", "Sampled", "Ended", "Stopped", "Lost", "Refused", "Forgotten")
    },
    "SetToolPermissions": f"tools.command.tool_permissions.set.org-1.{SCOPE}",
    "ToolPermissionsChanged": "tools.event.tool_permissions.changed.org-1."
    + permissions_id("org-1", "agent", AGENT),
    "ToolNameTaken": f"tools.event.tool_name.taken.org-1.{TOOL}",
    "ToolNameFreed": f"tools.event.tool_name.freed.org-1.{TOOL}",
    **{
        f"{verb}McpServer": f"tools.command.mcp_server.{verb.lower()}.org-1.{MCP_SERVER}"
        for verb in ("Create", "Update", "Delete", "Refresh")
    },
    "AskMcpServer": "tools.command.mcp_server.ask.org-1."
    "mcp_listing-88888888-8888-4888-8888-888888888888",
    "ListMcpTools": "tools.command.mcp_server.list_tools.org-1."
    "mcp_listing-88888888-8888-4888-8888-888888888888",
    **{
        f"McpServer{verb}": f"tools.event.mcp_server.{verb.lower()}.org-1.{MCP_SERVER}"
        for verb in ("Created", "Changed", "Deleted")
    },
    "McpDiscoveryRequested": f"tools.event.mcp_server.discovery_requested.org-1.{MCP_SERVER}",
    "McpToolsDiscovered": f"tools.event.mcp_server.tools_discovered.org-1.{MCP_SERVER}",
    "McpDiscoveryFailed": f"tools.event.mcp_server.discovery_failed.org-1.{MCP_SERVER}",
    "McpServerNameTaken": f"tools.event.mcp_server_name.taken.org-1.{MCP_SERVER}",
    "McpServerNameFreed": f"tools.event.mcp_server_name.freed.org-1.{MCP_SERVER}",
    "SetSandboxConfig": f"tools.command.sandbox_config.set.org-1.{SANDBOX}",
    "DeleteSandboxConfig": f"tools.command.sandbox_config.delete.org-1.{SANDBOX}",
    "RecreatePackages": f"tools.command.sandbox_config.recreate_packages.org-1.{SANDBOX}",
    "SetSandboxVariable": f"tools.command.sandbox_config.set_variable.org-1.{SANDBOX}",
    "UpdateSandboxVariable": f"tools.command.sandbox_config.update_variable.org-1.{SANDBOX}",
    "DeleteSandboxVariable": f"tools.command.sandbox_config.delete_variable.org-1.{SANDBOX}",
    "SandboxConfigChanged": f"tools.event.sandbox_config.changed.org-1.{SANDBOX}",
    "SandboxConfigDeleted": f"tools.event.sandbox_config.deleted.org-1.{SANDBOX}",
    "PackagesRecreated": f"tools.event.sandbox_config.packages_recreated.org-1.{SANDBOX}",
    "SandboxVariableSet": f"tools.event.sandbox_config.variable_set.org-1.{SANDBOX}",
    "SandboxVariableDeleted": f"tools.event.sandbox_config.variable_deleted.org-1.{SANDBOX}",
    "AnswerMcpAuthorization": f"tools.command.mcp_authorization.answer.org-1.{AUTHORIZATION}",
    "McpAuthorizationRequested": f"tools.event.mcp_authorization.requested.org-1.{AUTHORIZATION}",
    "McpAuthorizationAnswered": f"tools.event.mcp_authorization.answered.org-1.{AUTHORIZATION}",
    "McpServerAuthorized": f"tools.event.mcp_server.authorized.org-1.{MCP_SERVER}",
    "AgentCreated": f"agent.event.agent.created.org-1.{AGENT}",
    "AgentAbandoned": f"agent.event.agent.abandoned.org-1.{AGENT}",
    "AgentUpdated": f"agent.event.agent.updated.org-1.{AGENT}",
    "AgentSecretsReplaced": f"agent.event.agent.secrets_replaced.org-1.{AGENT}",
    "AgentForked": f"agent.event.agent.forked.org-1.{AGENT}",
    "AgentDeleted": f"agent.event.agent.deleted.org-1.{AGENT}",
    "BlockAttached": f"agent.event.agent.block_attached.org-1.{AGENT}",
    "BlockDetached": f"agent.event.agent.block_detached.org-1.{AGENT}",
    "MessageAppended": f"agent.event.message.appended.org-1.{CONVERSATION}",
    "SystemPromptRebuilt": f"agent.event.system_prompt.rebuilt.org-1.{CONVERSATION}",
    "ConversationDeleted": f"agent.event.conversation.deleted.org-1.{CONVERSATION}",
    "ConversationCreated": f"agent.event.conversation.created.org-1.{BESIDE}",
    "ConversationUpdated": f"agent.event.conversation.updated.org-1.{BESIDE}",
    "RunAccepted": f"agent.event.run.accepted.org-1.{RUN}",
    "RunStarted": f"agent.event.run.started.org-1.{RUN}",
    "ModelReplied": f"agent.event.model.replied.org-1.{RUN}",
    "ToolCallStarted": f"agent.event.tool_call.started.org-1.{RUN}",
    "ToolCallsStarted": f"agent.event.tool_calls.started.org-1.{RUN}",
    "ToolCallFinished": f"agent.event.tool_call.finished.org-1.{RUN}",
    "ToolCallRefused": f"agent.event.tool_call.refused.org-1.{RUN}",
    "ToolCallInterrupted": f"agent.event.tool_call.interrupted.org-1.{RUN}",
    "ToolCallForbidden": f"agent.event.tool_call.forbidden.org-1.{RUN}",
    "ApprovalRequested": f"agent.event.approval.requested.org-1.{RUN}",
    "ApprovalAnswered": "agent.event.approval.answered.org-1.run-answers",
    "ToolCallReturned": f"agent.event.tool_call.returned.org-1.{RUN}",
    "ApprovalExpired": f"agent.event.approval.expired.org-1.{CONVERSATION}",
    "ApprovalCancelled": f"agent.event.approval.cancelled.org-1.{CONVERSATION}",
    "RunCompleted": f"agent.event.run.completed.org-1.{RUN}",
    "ReviewableRunEnded": f"agent.event.reviewable_run.ended.org-1.{RUN}",
    "RunFailed": f"agent.event.run.failed.org-1.{RUN}",
    "ConversationCompacted": f"agent.event.conversation.compacted.org-1.{RUN}",
    "ContextCleared": f"agent.event.context.cleared.org-1.{CONVERSATION}",
    "ContextReplaced": f"agent.event.context.replaced.org-1.{CONVERSATION}",
    "RetriedContentRefused": f"agent.event.retried_content.refused.org-1.{RUN}",
    "HeartbeatsPaused": f"agent.event.heartbeats.paused.org-1.{RUN}",
    "HeartbeatsResumed": "agent.event.heartbeats.resumed.org-1.run-after-the-pause",
    "HeartbeatPauseCancelled": f"agent.event.heartbeat_pause.cancelled.org-1.{CONVERSATION}",
    "QueuedRunsCancelled": f"agent.event.queued_runs.cancelled.org-1.{CONVERSATION}",
    "RunCancelled": f"agent.event.run.cancelled.org-1.{RUN}",
    "CallbackAttempted": f"agent.event.callback.attempted.org-1.{RUN}",
    "RunDeleted": f"agent.event.run.deleted.org-1.{RUN}",
    "StepAnnotated": f"agent.event.step.annotated.org-1.{RUN}",
    "BlockCreated": f"memory.event.block.created.org-1.{BLOCK}",
    "BlockChanged": f"memory.event.block.changed.org-1.{BLOCK}",
    "BlockDeleted": f"memory.event.block.deleted.org-1.{BLOCK}",
}
for name in names():
    title = name.capitalize()
    SUBJECTS |= {
        f"Replay{title}DeadLetter": f"{name}.command.dead_letter.replay.org-1.{LETTER}",
        f"Discard{title}DeadLetter": f"{name}.command.dead_letter.discard.org-1.{LETTER}",
        f"Check{title}Health": f"{name}.command.health.check.org-1.health-1",
    }
for name in SERVICES_WITH_HISTORIES:
    title = name.capitalize()
    SUBJECTS |= {
        f"AppendHistoriesTo{title}": f"{name}.command.histories.append.org-1.import-1",
        f"UndoHistoriesAppendedTo{title}": (
            f"{name}.command.appended_histories.undo.org-1.import-1"
        ),
    }
SUBJECTS |= {
    f"Materialize{name.capitalize()}Moment": f"{name}.command.moment.materialize.org-1.moment-1"
    for name in SERVICES_WITH_MOMENTS
}
MESSAGES: list[Command | Event] = [*examples.COMMANDS, *examples.EVENTS]


def named(message: Command | Event) -> str:
    return type(message).__name__


def registered() -> set[type[Command] | type[Event]]:
    """The message classes of the services; other tests may have registered their own."""
    known = [*COMMANDS.values(), *EVENTS.values()]
    return {kind for kind in known if kind.service in names()}


def test_every_message_has_an_example() -> None:
    examples = {type(message) for message in MESSAGES}
    assert examples == registered(), "write an example in tests/contract/examples.py"
    assert len(MESSAGES) == len(registered())


def test_messages_keep_their_golden_form() -> None:
    files = {path: path.read_text() for path in FOLDER.rglob("*.json")}
    wanted = golden()
    advice = "after a review: python -m tests.contract.golden --write"
    assert files.keys() == wanted.keys(), advice
    for path, text in wanted.items():
        assert files[path] == text, f"{path.name} differs; {advice}"


@pytest.mark.parametrize("event", examples.EVENTS, ids=named)
def test_a_golden_event_loads_back_equal(event: Event) -> None:
    payload = json.loads(path_of(event).read_text())
    assert loaded(event, payload) == event


@pytest.mark.parametrize("event", examples.EVENTS, ids=named)
def test_an_event_of_a_newer_writer_loads_without_what_is_unknown(event: Event) -> None:
    payload = json.loads(path_of(event).read_text())
    again = loaded(event, {**payload, "added_later": {"by": "a newer version"}})
    assert again == event
    assert json.loads(again.payload_json()) == payload


@pytest.mark.parametrize("command", examples.COMMANDS, ids=named)
def test_a_golden_command_loads_back_equal_and_without_what_is_unknown(command: Command) -> None:
    payload = json.loads(path_of(command).read_text())
    assert type(command).model_validate(payload) == command
    assert type(command).model_validate({**payload, "added_later": 1}) == command


def loaded(event: Event, payload: dict[str, object]) -> Event:
    columns = {
        "originator_id": event.originator_id,
        "originator_version": event.originator_version,
        "timestamp": event.timestamp,
    }
    return type(event).model_validate({**payload, **columns})


@pytest.mark.parametrize("message", MESSAGES, ids=named)
def test_the_subject_says_what_a_message_is_and_is_about(message: Command | Event) -> None:
    if isinstance(message, Command):
        subject = message.subject(ORG)
    else:
        subject = event_subject(message.service, message.topic, ORG, message.about)
    assert subject == SUBJECTS[named(message)]


def test_no_two_messages_share_a_topic_of_a_service() -> None:
    names = [(kind.service, kind.topic) for kind in registered()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("message", MESSAGES, ids=named)
def test_the_description_of_a_message_is_one_sentence(message: Command | Event) -> None:
    kind = type(message)
    assert "__doc__" in vars(kind)
    first_paragraph = cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    summary = " ".join(first_paragraph.split("\n"))
    assert summary.endswith("."), summary
    assert ". " not in summary, "more than a sentence stands in a paragraph of its own"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_message_lives_with_the_service_that_owns_it(module: ModuleType) -> None:
    for kind in vars(module).values():
        if isinstance(kind, type) and kind in registered() and kind.__module__ == module.__name__:
            assert kind.service == module.__name__.split(".")[2]


def test_the_golden_text_is_the_payload_alone() -> None:
    event = examples.EVENTS[0]
    assert (
        not {"originator_id", "originator_version", "timestamp"}
        & json.loads(golden_text(event)).keys()
    )

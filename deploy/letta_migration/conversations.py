"""The conversations of an agent of the old server, with their messages and runs, as histories.

Messages are read in the order in which the old server has them, which is across conversations. A
run stands before its first message; what models were shown stays what models are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from deploy.letta_migration.conversation_rows import (
    MESSAGES_PAGE,
    RECENT_MAX,
    ConversationRows,
    Page,
    conversation_config,
    recorded_answers,
)
from deploy.letta_migration.histories import EncodedHistory, History
from deploy.letta_migration.messages import (
    SPEAKING_TYPES,
    content_bytes,
    messages_of,
    utc,
    without_content,
)
from deploy.letta_migration.progress import ConversationProgress, Progress
from deploy.letta_migration.report import Report
from deploy.letta_migration.runs import (
    PastRun,
    answer_request,
    ask,
    begin,
    cancel_request,
    end,
    never_began,
    step_through,
)
from deploy.letta_migration.source import LettaDatabase, Row
from deploy.letta_migration.target_versions import TargetVersions
from libs.contracts.agent.approvals import RecordedAnswer
from libs.contracts.agent.compaction import ContextReplaced
from libs.contracts.agent.conversations import (
    ConversationCreated,
    ConversationUpdated,
    Message,
    MessageAppended,
    SystemPromptRebuilt,
    main_conversation,
)
from libs.contracts.deterministic_ids import derived_id

WENT_ON = "it went on here since the last pass, and stays as it is here"
CONTENT_BYTES_MAX = 3 << 20
TOO_LARGE = "its content has more than 3 MiB: a note stands in its place"
TICK = timedelta(microseconds=1)


@dataclass(slots=True)
class PastConversation:
    """A conversation that is being taken over: its events so far, and where they have got to."""

    history: History
    progress: ConversationProgress
    shown: frozenset[str]
    # The row of a conversation beside the agent's own.
    row: Row | None = None
    # The request that waits for its client at the end of the old server's history.
    asking: Row | None = None
    # Whether it went on here since the last pass.
    went_on: bool = False
    # Calls that models are shown and that have no result yet.
    open_calls: set[str] = field(default_factory=set)


class AgentConversations:
    """Takes over the conversations of one agent."""

    def __init__(
        self,
        database: LettaDatabase,
        agent: Row,
        progress: Progress,
        report: Report,
        *,
        target_versions: TargetVersions,
        is_last: bool,
    ) -> None:
        self.target_versions = target_versions
        self.rows = ConversationRows(database, str(agent["id"]))
        self.agent = agent
        self.agent_id = str(agent["id"])
        self.progress = progress
        self.mine = progress.agent(self.agent_id)
        self.report = report
        self.is_last = is_last
        self.speaks = agent["agent_type"] in SPEAKING_TYPES
        self.conversations: dict[str | None, PastConversation] = {}

    def lines(self) -> Iterator[EncodedHistory]:
        """The next parts of the histories of all conversations."""
        self.find_conversations()
        for page in self.rows.pages(self.mine.recent):
            for row in page.rows:
                yield from self.take(row, page)
            taken = [*self.mine.recent, *(row["sequence_id"] for row in page.rows)]
            self.mine.recent = sorted(taken)[-RECENT_MAX:]
        yield from self.left_runs()
        for conversation in self.conversations.values():
            if conversation.went_on:
                self.report.leave("conversations", conversation.history.id, WENT_ON)
                continue
            self.close(conversation)
            yield from conversation.history.take(complete=True)
            conversation.progress.version = conversation.history.version
            self.progress.keep_conversation(conversation.history.id, conversation.progress)

    def find_conversations(self) -> None:
        """Begin or go on with each conversation of the agent."""
        main = self.open_conversation(
            main_conversation(self.agent_id), None, self.agent["message_ids"] or []
        )
        self.conversations[None] = main
        rows = self.rows.database.rows(
            "conversations", "agent_id = %s and not is_deleted", [self.agent_id]
        )
        for row in rows:
            self.conversations[row["id"]] = self.open_conversation(
                row["id"], row, self.rows.shown_in(row["id"])
            )

    def open_conversation(
        self, name: str, row: Row | None, shown: Sequence[str]
    ) -> PastConversation:
        """A conversation as far as it was taken over before."""
        progress = self.progress.conversation(name)
        history = History("agent", name, progress.version)
        asking = self.rows.row_of(shown[-1]) if shown else None
        if asking and not (asking["role"] == "approval" and asking["tool_calls"]):
            asking = None
        progress.wanted = list(shown)
        known = progress.version
        went_on = known > 0 and self.target_versions.version(name, self.agent_id, known) != known
        return PastConversation(history, progress, frozenset(shown), row, asking, went_on)

    def take(self, row: Row, page: Page) -> Iterator[EncodedHistory]:
        """Take over one message, and its run before it if it is the first of that."""
        conversation = self.conversations.get(row.get("conversation_id"))
        if conversation is None:
            self.report.leave("messages", row["id"], "its conversation is not there any more")
            return
        if conversation.went_on:
            return
        self.report.count("messages")
        history = conversation.history
        if history.is_full():
            yield from history.take(complete=False)
        self.begin_conversation(conversation, row)
        run = page.runs.get(row["run_id"]) if row.get("run_id") else None
        asking = conversation.asking
        is_first = run is not None and page.first.get(run.id) == row["sequence_id"]
        asks = run is not None and asking is not None and asking["run_id"] == run.id
        if run is not None and is_first and not asks:
            self.take_run(conversation, run, row)
        messages = messages_of(row, speaks=self.speaks)
        if len(messages) > 1:
            conversation.progress.parts[row["id"]] = [message.id for message in messages]
        for message in messages:
            self.append(conversation, row, message, run)

    def begin_conversation(self, conversation: PastConversation, row: Row | None) -> None:
        """Let a conversation begin, if it has not: one beside the agent's own by being made, the
        agent's own with its system message."""
        if conversation.history.version > 0:
            return
        if conversation.row is not None:
            config = conversation_config(
                conversation.row, self.rows.isolated_blocks(conversation.row)
            )
            conversation.history.add(ConversationCreated, config.created_at, config=config)
        elif row is None or row["role"] != "system":
            self.report.mend("A conversation without a system message gets one")
            message = Message(
                id=derived_id("message", conversation.history.id, "system"),
                role="system",
                content=self.agent["system"] or "",
                created_at=utc(self.agent["created_at"]),
            )
            conversation.history.add(
                MessageAppended, message.created_at, agent_id=self.agent_id, message=message
            )
            conversation.progress.window.append(message.id)

    def next_listing(self, at: datetime) -> datetime:
        """When a message is listed: in the order of the old server, also across conversations."""
        latest = self.mine.listed_at
        self.mine.listed_at = at if latest is None or at > latest else latest + TICK
        return self.mine.listed_at

    def append(
        self, conversation: PastConversation, row: Row, message: Message, run: PastRun | None
    ) -> None:
        """Take over a message: as one that models are shown, if they were."""
        if content_bytes(message) > CONTENT_BYTES_MAX:
            self.report.leave("messages", message.id, TOO_LARGE)
            message = without_content(message)
        history, progress = conversation.history, conversation.progress
        at = self.next_listing(message.created_at)
        shown = row["id"] in conversation.shown
        if message.role != "approval" and not shown and not progress.window:
            # A window begins with a system message, whatever became of this one.
            shown = message.role == "system"
        fields: dict[str, Any] = {
            "agent_id": self.agent_id,
            "message": message,
            "run_id": row.get("run_id"),
            "step_id": row["step_id"],
            "sent": row["role"] in ("user", "approval") and not message.tool_calls,
            "in_context": shown,
        }
        asking = conversation.asking
        if asking is not None and asking["id"] == row["id"]:
            if run is not None and row["step_id"]:
                progress.pending = ask(history, run, fields, at)
                self.report.count("runs")
                self.report.count("steps", len(run.steps))
                progress.window.append(message.id)
                return
            self.report.mend("An approval that nobody can give any more: its run is not there")
        history.add(MessageAppended, at, **fields)
        if shown and message.role != "approval":
            progress.window.append(message.id)
            conversation.open_calls |= {call.id for call in message.tool_calls}
        conversation.open_calls.discard(message.tool_call_id or "")
        if message.role == "system" and shown:
            progress.system = system_text(message)

    def take_run(self, conversation: PastConversation, run: PastRun, row: Row | None) -> None:
        """Take over a run with its steps, if it has ended; else the next pass does. `row` is its
        first message, which may answer calls that waited."""
        if not (run.is_over or self.is_last):
            self.mine.open_runs[run.id] = conversation.history.id
            return
        history, progress = conversation.history, conversation.progress
        self.report.count("runs")
        self.report.count("steps", len(run.steps))
        pending, answers = None, list[RecordedAnswer]()
        if row is not None:
            pending, progress.pending = progress.pending, None
            answers = recorded_answers(pending, row) if pending else []
        if pending is not None and not answers:
            cancel_request(history, pending, run.begin_time)
        if not run.is_over and not run.steps:
            never_began(history, run)
            return
        begin(history, run, answer=pending if answers else None)
        if pending is not None and answers:
            answer_request(history, run, pending, answers)
        step_through(history, run)
        end(history, run)

    def left_runs(self) -> Iterator[EncodedHistory]:
        """Take over the runs that have no messages, and those that had not ended before."""
        before, self.mine.open_runs = self.mine.open_runs, {}
        for name, run in self.rows.runs(list(before)).items():
            conversation = self.by_id(before[name])
            if conversation is not None and not conversation.went_on:
                yield from self.part(conversation)
                self.take_run(conversation, run, None)
        names = [
            row["id"] for row in self.rows.silent_runs() if not self.progress.has_run(row["id"])
        ]
        for start in range(0, len(names), MESSAGES_PAGE):
            for run in sorted(
                self.rows.runs(names[start : start + MESSAGES_PAGE]).values(),
                key=lambda run: run.begin_time,
            ):
                conversation = self.conversations.get(run.row.get("conversation_id"))
                if conversation is None or conversation.went_on:
                    continue
                if not (run.is_over or self.is_last):
                    continue
                yield from self.part(conversation)
                self.begin_conversation(conversation, None)
                self.take_run(conversation, run, None)
                self.progress.keep_run(run.id)

    def part(self, conversation: PastConversation) -> Iterator[EncodedHistory]:
        """A part of a history, where enough of it waits."""
        if conversation.history.is_full():
            yield from conversation.history.take(complete=False)

    def by_id(self, name: str) -> PastConversation | None:
        """The conversation of an id."""
        found = self.conversations.values()
        return next((each for each in found if each.history.id == name), None)

    def close(self, conversation: PastConversation) -> None:
        """Let a conversation be as the old server has it now: its system message, its context, and
        what is said of it."""
        self.begin_conversation(conversation, None)
        history, progress = conversation.history, conversation.progress
        if progress.pending is not None and conversation.asking is None:
            cancel_request(history, progress.pending, self.now_of(conversation))
            progress.pending = None
        for _ in conversation.open_calls:
            self.report.mend("A call without its result: models are shown that it was interrupted")
        self.rebuild_system(conversation)
        self.replace_context(conversation)
        row = conversation.row
        if row is not None and row.get("last_message_at") is not None:
            config = conversation_config(row, self.rows.isolated_blocks(row))
            digest = config.model_dump_json()
            if digest != progress.config:
                history.add(
                    ConversationUpdated,
                    config.updated_at,
                    changed=["last_message_at", "summary", "model", "model_settings"],
                    config=config,
                )
                progress.config = digest

    def replace_context(self, conversation: PastConversation) -> None:
        """Let models be shown what they are shown by the old server now, in its order."""
        progress = conversation.progress
        known = {*progress.window}
        rows: dict[str, Row] = {}
        fresh = [name for name in progress.wanted if name not in known]
        for row in self.rows.database.rows("messages", "id = any(%s) and not is_deleted", [fresh]):
            if row["role"] != "approval" or row["tool_calls"]:
                rows[row["id"]] = row
        returned = {name: messages_of(row, speaks=self.speaks) for name, row in rows.items()}
        wanted = [
            part
            for name in progress.wanted
            for part in progress.parts.get(name, [name])
            if name in known or name in returned
        ]
        if not wanted or wanted[0] != progress.window[0]:
            wanted = [progress.window[0], *(name for name in wanted if name != progress.window[0])]
        if wanted == progress.window:
            return
        conversation.history.add(
            ContextReplaced,
            self.now_of(conversation),
            agent_id=self.agent_id,
            message_ids=wanted,
            evicted=[name for name in progress.window if name not in {*wanted}],
            returned=[message for messages in returned.values() for message in messages],
        )
        progress.window = wanted

    def now_of(self, conversation: PastConversation) -> datetime:
        """The time of what closes a pass over a conversation."""
        row = conversation.row or self.agent
        return utc(row["updated_at"] or row["created_at"])

    def rebuild_system(self, conversation: PastConversation) -> None:
        """Let the system message be as it is now, where it was taken over before and has changed
        since: the old server writes it anew in its place."""
        progress = conversation.progress
        if not progress.window or not progress.system or not conversation.progress.wanted:
            return
        row = self.rows.row_of(progress.window[0])
        if row is None or row["role"] != "system":
            return
        [message] = messages_of(row, speaks=self.speaks)
        if system_text(message) == progress.system:
            return
        conversation.history.add(
            SystemPromptRebuilt,
            utc(row["updated_at"] or row["created_at"]),
            agent_id=self.agent_id,
            message=message,
            shows={},
        )
        progress.system = system_text(message)


def system_text(message: Message) -> str:
    """The text of a system message, to be compared."""
    return str(message.content)

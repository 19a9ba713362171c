"""Each event of the agent service, and every column of the rows that it writes."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from libs.contracts.agent.agents import (
    AgentAbandoned,
    AgentCreated,
    AgentDeleted,
    AgentForked,
    AgentUpdated,
    BlockAttached,
    BlockDetached,
)
from libs.contracts.agent.approvals import ApprovalAnswered, ToolCallReturned
from libs.contracts.agent.compaction import ConversationCompacted, RetriedContentRefused
from libs.contracts.agent.conversations import (
    ConversationDeleted,
    MessageAppended,
    SystemPromptRebuilt,
)
from libs.contracts.agent.runs import (
    CallbackAttempted,
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
    UnfinishedStep,
)
from libs.contracts.bus_messages import EVENTS, LOG_COLUMNS, Event
from libs.contracts.letta.agent_state import agent_state
from libs.contracts.letta.runs import run_state
from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS, base_tool_state
from libs.eventstore.read_model_rows import Deletion, RowWrites, Table
from services.agent.domain.conversations.conversation import Conversation
from services.agent.projections import project
from services.agent.projections.agents import agent_documents
from services.agent.projections.tables import (
    AGENT_CAPABILITIES,
    AGENT_TAGS,
    AGENTS,
    APPROVALS,
    CALLBACKS,
    CALLED_RUNS,
    CONVERSATIONS,
    HEARTBEAT_PAUSES,
    MESSAGES,
    RUNS,
    STEPS,
)
from tests.contract import examples
from tests.contract.examples import (
    AGENT,
    BLOCK,
    CALLED,
    CALLING,
    CONFIG,
    CONVERSATION,
    RETURNED,
    RUN,
    RUN_CONFIG,
    SAID,
    SHARED_BLOCK,
    STEP,
    SYSTEM,
    TOOLS,
    USER,
    message,
)
from tests.unit.given import NOW, fact

ORG = "org-1"
LATER = NOW + timedelta(seconds=1.5)
HOURS = timedelta(hours=2)
EXAMPLES = {type(event): event for event in examples.EVENTS}


def rows_of(*events: Event) -> RowWrites:
    rows = RowWrites()
    for event in events:
        project(event, ORG, rows)
    return rows


def upserted(rows: RowWrites, table: Table) -> dict[str, Any]:
    """The one row of the one table that was written; a message of an answer tells besides whose
    step it is."""
    assert (rows.patches.keys() - {STEPS}, rows.deletions) == (set(), [])
    assert rows.upserts.keys() == {table}
    [row] = rows.upserts[table].values()
    return row


def patched(rows: RowWrites, table: Table) -> dict[str, Any]:
    """The one row of the one table that was changed."""
    assert rows.upserts == {}
    assert rows.patches.keys() == {table}
    [row] = rows.patches[table].values()
    return row


class TestAgents:
    DESIGN = {  # noqa: RUF012
        "hidden": False,
        "custom_tool_ids": [],
        "id": AGENT,
        "updated_at": NOW.isoformat(),
        "name": "QuietHeron",
        "tools": [base_tool_state(BASE_TOOLS[name], created_by_id=USER) for name in TOOLS],
        **agent_documents(CONFIG),
    }

    def test_an_agents_documents_together_have_every_field_but_its_message_ids(self) -> None:
        documents: Any = agent_documents(CONFIG)
        body = json.loads(f"{{{documents['body']}}}")
        assert body.keys().isdisjoint(documents["fields"])
        assert {**body, **documents["fields"], "message_ids": []} == agent_state(CONFIG)

    def test_a_created_agent_is_a_row(self) -> None:
        rows = rows_of(EXAMPLES[AgentCreated])
        assert rows.upserts[AGENTS] == {
            (AGENT,): {
                **self.DESIGN,
                "org": ORG,
                "created_at": NOW.isoformat(),
                "conversation_id": CONVERSATION,
                "block_ids": [BLOCK, SHARED_BLOCK],
                "tags": ["blue"],
            }
        }
        named = {"agent_id": AGENT, "tag": "blue", "org": ORG}
        assert rows.upserts[AGENT_TAGS] == {(AGENT, "blue"): named}

    def test_an_update_changes_the_columns_of_the_design(self) -> None:
        other = EXAMPLES[AgentUpdated].model_copy(update={"changed": ["name"]})
        assert patched(rows_of(other), AGENTS) == {
            **self.DESIGN,
            "block_ids": [BLOCK],
            "tags": ["green"],
        }

    def test_an_update_of_the_tags_replaces_them(self) -> None:
        rows = rows_of(EXAMPLES[AgentUpdated])
        assert rows.deletions == [Deletion(AGENT_TAGS, "agent_id", AGENT)]
        named = {"agent_id": AGENT, "tag": "green", "org": ORG}
        assert rows.upserts == {AGENT_TAGS: {(AGENT, "green"): named}}

    def test_attaching_and_detaching_change_the_blocks_alone(self) -> None:
        for kind, left in ((BlockAttached, [BLOCK, SHARED_BLOCK]), (BlockDetached, [BLOCK])):
            row = patched(rows_of(EXAMPLES[kind]), AGENTS)
            assert row == {"id": AGENT, "block_ids": left}

    def test_a_deleted_agent_leaves_no_row(self) -> None:
        """Its messages and runs go with its conversation, in the same commit."""
        rows = rows_of(EXAMPLES[AgentDeleted])
        assert rows.deletions == [
            Deletion(AGENTS, "id", AGENT),
            Deletion(AGENT_TAGS, "agent_id", AGENT),
            Deletion(AGENT_CAPABILITIES, "agent_id", AGENT),
        ]
        assert (rows.upserts, rows.patches) == ({}, {})


class TestMessages:
    def appended(self, appended_message: Any, **fields: Any) -> dict[str, Any]:
        event = fact(MessageAppended, agent_id=AGENT, message=appended_message, **fields)
        return upserted(rows_of(event.at(CONVERSATION, 7)), MESSAGES)

    def test_a_user_message_is_a_row_with_its_words(self) -> None:
        row = self.appended(SAID, run_id=RUN, sent=True)
        [v1_message] = row.pop("v1_messages")
        assert row == {
            "id": SAID.id,
            "org": ORG,
            "agent_id": AGENT,
            "conversation_id": CONVERSATION,
            "position": 7,
            "run_id": RUN,
            "step_id": None,
            "role": "user",
            "created_at": NOW.isoformat(),
            "recorded_at": NOW.isoformat(),
            "sent": True,
            "in_context": True,
            "text": "I like tea",
            "number": None,
            "chunks": None,
        }
        assert v1_message["message_type"] == "user_message"
        assert v1_message["content"] == [{"type": "text", "text": "I like tea"}]
        assert (v1_message["id"], v1_message["otid"], v1_message["run_id"]) == (
            SAID.id,
            "otid-1",
            RUN,
        )
        assert (v1_message["name"], v1_message["sender_id"]) == ("Ada", "identity-1")

    def test_messages_of_a_conversation_stand_in_its_order_when_the_clock_goes_back(self) -> None:
        """R19: also those of a summary, and of a process that has the conversation from its events;
        those that come once the clock is right again have its time."""
        talk = Conversation.blank(CONVERSATION)
        talk.begin(AGENT, SYSTEM, {}, at=NOW)
        talk.append(SAID, at=NOW + HOURS)
        talk.append(CALLED, at=NOW - HOURS)
        elsewhere = Conversation.blank(CONVERSATION)
        for event in (events := talk.take_new_events()):
            type(event).model_validate_json(event.model_dump_json()).mutate(elsewhere)
        summary = EXAMPLES[ConversationCompacted].model_dump(
            exclude={*LOG_COLUMNS, "evicted", "listed_at"}
        )
        elsewhere.record(ConversationCompacted, at=NOW, evicted=[], **summary)
        elsewhere.append(RETURNED, at=NOW + 2 * HOURS)

        events += elsewhere.take_new_events()

        assert [event.timestamp for event in events] == [
            *(NOW, NOW + HOURS, NOW - HOURS, NOW, NOW + 2 * HOURS)
        ], "what the clocks said"
        rows = [row for event in events for row in rows_of(event).upserts[MESSAGES].values()]
        assert [row["position"] for row in rows] == [1, 2, 3, 4, 5]
        assert [datetime.fromisoformat(str(row["recorded_at"])) for row in rows] == [
            *(NOW, NOW + HOURS, NOW + HOURS, NOW + HOURS, NOW + 2 * HOURS)
        ]

    def test_how_an_answer_was_told_is_kept(self) -> None:
        event = EXAMPLES[MessageAppended]
        row = upserted(rows_of(event), MESSAGES)
        assert row["number"] == 2
        assert row["chunks"][:2] == [["reasoning", 4], ["text", 3]]

    def test_one_assistant_message_is_served_as_its_parts(self) -> None:
        row = self.appended(CALLED, run_id=RUN, step_id=STEP)
        assert (row["role"], row["text"], row["step_id"]) == ("assistant", "Noted.", STEP)
        thought, spoken, called = row["v1_messages"]
        assert [v1_message["message_type"] for v1_message in row["v1_messages"]] == [
            "reasoning_message",
            "assistant_message",
            "tool_call_message",
        ]
        assert (thought["reasoning"], spoken["content"]) == ("Worth it.", "Noted.")
        assert called["tool_call"]["tool_call_id"] == CALLED.tool_calls[0].id
        assert called["tool_call"]["arguments"] == CALLED.tool_calls[0].arguments
        assert len({v1_message["otid"] for v1_message in row["v1_messages"]}) == 3
        assert {v1_message["step_id"] for v1_message in row["v1_messages"]} == {STEP}

    def test_a_tool_result_is_served_with_its_status(self) -> None:
        row = self.appended(RETURNED, run_id=RUN, step_id=STEP)
        [v1_message] = row["v1_messages"]
        assert (row["role"], row["text"]) == ("tool", "Likes tea")
        assert (v1_message["message_type"], v1_message["status"]) == (
            "tool_return_message",
            "success",
        )
        assert (v1_message["tool_call_id"], v1_message["tool_return"]) == (
            RETURNED.tool_call_id,
            "Likes tea",
        )

    def test_the_searched_text_has_nothing_that_postgres_refuses(self) -> None:
        assert self.appended(message(9, role="user", content="a\x00b"))["text"] == "ab"

    def test_a_rebuilt_prompt_changes_the_text_of_the_system_message(self) -> None:
        row = patched(rows_of(EXAMPLES[SystemPromptRebuilt]), MESSAGES)
        [v1_message] = row.pop("v1_messages")
        assert row == {"id": SYSTEM.id, "text": SYSTEM.content}
        assert (v1_message["message_type"], v1_message["content"]) == (
            "system_message",
            SYSTEM.content,
        )

    def test_a_deleted_conversation_takes_its_messages_and_runs_along(self) -> None:
        rows = rows_of(EXAMPLES[ConversationDeleted])
        assert rows.deletions == [
            Deletion(CONVERSATIONS, "id", CONVERSATION),
            Deletion(MESSAGES, "conversation_id", CONVERSATION),
            Deletion(RUNS, "conversation_id", CONVERSATION),
            Deletion(STEPS, "conversation_id", CONVERSATION),
            Deletion(CALLBACKS, "conversation_id", CONVERSATION),
            Deletion(CALLED_RUNS, "conversation_id", CONVERSATION),
            Deletion(HEARTBEAT_PAUSES, "conversation_id", CONVERSATION),
            Deletion(APPROVALS, "conversation_id", CONVERSATION),
        ]


class TestRuns:
    ENDED = {  # noqa: RUF012
        "completed_at": "2026-05-17T12:30:16.623456Z",
        "total_duration_ns": 1_500_000_000,
    }

    def test_an_accepted_run_is_a_row(self) -> None:
        plain = EXAMPLES[RunAccepted].model_copy(update={"callers": []})
        assert upserted(rows_of(plain), RUNS) == {
            "id": RUN,
            "org": ORG,
            "agent_id": AGENT,
            "conversation_id": CONVERSATION,
            "created_at": NOW.isoformat(),
            "status": "created",
            "background": True,
            "request_hash": "sha256-of-the-request",
            "stream_tokens": True,
            "fields": run_state(RUN_CONFIG),
        }

    def test_an_accepted_run_that_another_agent_called_says_by_which_run(self) -> None:
        rows = rows_of(EXAMPLES[RunAccepted])
        assert rows.upserts[CALLED_RUNS][(RUN,)] == {
            "run_id": RUN,
            "org": ORG,
            "conversation_id": CONVERSATION,
            "caller_run_id": CALLING.run_id,
            "caller_conversation_id": CALLING.conversation_id,
            "waits": CALLING.waits,
            "callers": [CALLING.model_dump(mode="json")],
        }

    def test_a_started_run_is_running(self) -> None:
        rows = rows_of(EXAMPLES[RunStarted])
        assert rows.patches == {
            RUNS: {(RUN,): {"id": RUN, "status": "running", "fields": {"status": "running"}}}
        }
        assert (rows.upserts, rows.deletions) == ({}, [])

    def test_a_run_that_starts_at_once_is_one_row(self) -> None:
        rows = rows_of(EXAMPLES[RunAccepted], EXAMPLES[RunStarted])
        row = rows.upserts[RUNS][(RUN,)]
        assert row["status"] == "running"
        assert row["fields"] == {**run_state(RUN_CONFIG), "status": "running"}
        assert not rows.patches.get(RUNS)

    def test_a_completed_run_says_why_what_it_cost_and_how_long_it_took(self) -> None:
        event = EXAMPLES[RunCompleted].model_copy(update={"timestamp": LATER})
        rows = rows_of(event)
        row = rows.patches[RUNS][(RUN,)]
        usage = row.pop("usage")
        assert row == {
            "id": RUN,
            "status": "completed",
            "stop_reason": "end_turn",
            "fields": {"status": "completed", "stop_reason": "end_turn", **self.ENDED},
        }
        assert usage["prompt_tokens"] == 120
        assert usage["completion_tokens"] == 8
        assert usage["total_tokens"] == 128
        assert (usage["step_count"], usage["context_tokens"]) == (2, 128)
        assert (rows.upserts, rows.deletions) == ({}, [])

    def test_a_failed_run_says_what_went_wrong(self) -> None:
        event = EXAMPLES[RunFailed].model_copy(update={"timestamp": LATER})
        rows = rows_of(event)
        row = rows.patches[RUNS][(RUN,)]
        assert row.pop("usage")["context_tokens"] is None
        assert row == {
            "id": RUN,
            "status": "failed",
            "stop_reason": "llm_api_error",
            "fields": {"status": "failed", "stop_reason": "llm_api_error", **self.ENDED},
            "error": {
                "error_type": "llm_rate_limit",
                "message": "The model answered 429: slow down",
                "detail": "rate_limit_exceeded",
            },
        }
        assert (rows.upserts, rows.deletions) == ({}, [])

    def test_a_cancelled_run_says_so_and_what_it_had_cost(self) -> None:
        event = EXAMPLES[RunCancelled].model_copy(update={"timestamp": LATER})
        row = rows_of(event).patches[RUNS][(RUN,)]
        assert row.pop("usage")["total_tokens"] == 128
        assert row == {
            "id": RUN,
            "status": "cancelled",
            "stop_reason": "cancelled",
            "fields": {"status": "cancelled", "stop_reason": "cancelled", **self.ENDED},
        }

    def test_tool_calls_and_agents_that_never_come_change_no_row(self) -> None:
        inside = {
            ToolCallStarted, ToolCallsStarted, ToolCallFinished, ToolCallInterrupted,
            ToolCallRefused, ToolCallReturned, ApprovalAnswered, ToolCallForbidden,
            AgentAbandoned, AgentForked, ReviewableRunEnded, RetriedContentRefused,
        }  # fmt: skip
        for kind in inside:
            assert rows_of(EXAMPLES[kind]) == RowWrites()
        written = {kind for kind in EVENTS.values() if kind.service == "agent"} - inside
        for kind in written:
            assert rows_of(EXAMPLES[kind]) != RowWrites(), kind


class TestSteps:
    ANSWERED = EXAMPLES[ModelReplied].model_copy(update={"agent_id": AGENT})
    ROW = {  # noqa: RUF012
        "id": STEP,
        "org": ORG,
        "agent_id": AGENT,
        "conversation_id": CONVERSATION,
        "run_id": RUN,
        "position": 1,
        "created_at": NOW.isoformat(),
        "status": "success",
        "model": "openai/gpt-4o-mini",
    }

    def test_a_step_that_was_answered_is_a_row(self) -> None:
        assert upserted(rows_of(self.ANSWERED), STEPS) == self.ROW

    def test_the_message_of_a_step_says_whose_it_is_where_the_step_does_not(self) -> None:
        older = EXAMPLES[ModelReplied]
        assert rows_of(older, EXAMPLES[MessageAppended]).upserts[STEPS] == {(STEP,): self.ROW}

    def test_a_question_that_failed_or_was_cancelled_is_a_row(self) -> None:
        asked = UnfinishedStep(id=STEP, agent_id=AGENT, asked=True, model="openai/gpt-4o-mini")
        failed = EXAMPLES[RunFailed].model_copy(update={"step": asked})
        assert rows_of(failed).upserts[STEPS] == {(STEP,): {**self.ROW, "status": "failed"}}
        cut = EXAMPLES[RunCancelled].model_copy(update={"step": asked})
        assert rows_of(cut).upserts[STEPS] == {(STEP,): {**self.ROW, "status": "cancelled"}}

    def test_a_step_whose_tools_were_cut_short_changes_its_status(self) -> None:
        answered = UnfinishedStep(id=STEP, agent_id=AGENT, asked=False)
        cut = EXAMPLES[RunCancelled].model_copy(update={"step": answered})
        assert rows_of(cut).patches[STEPS] == {(STEP,): {"id": STEP, "status": "cancelled"}}

    def test_what_a_client_says_of_a_step_stands_in_its_row(self) -> None:
        said = {"id": STEP, "feedback": "positive", "tags": ["kind"]}
        assert rows_of(EXAMPLES[StepAnnotated]).patches == {STEPS: {(STEP,): said}}

    def test_a_deleted_run_goes_with_its_steps(self) -> None:
        rows = rows_of(EXAMPLES[RunDeleted])
        assert rows.deletions == [
            Deletion(RUNS, "id", RUN),
            Deletion(STEPS, "run_id", RUN),
            Deletion(CALLBACKS, "run_id", RUN),
            Deletion(CALLED_RUNS, "run_id", RUN),
        ]


class TestCallbacks:
    URL = "https://hooks.example/a"

    def test_a_run_whose_end_somebody_wants_to_be_told_is_a_row_more(self) -> None:
        run = RUN_CONFIG.model_copy(update={"callback_url": self.URL})
        rows = rows_of(EXAMPLES[RunAccepted].model_copy(update={"run": run}))
        assert rows.upserts[CALLBACKS] == {
            (RUN,): {
                "run_id": RUN,
                "org": ORG,
                "conversation_id": CONVERSATION,
                "url": self.URL,
                "attempts": 0,
                "next_at": NOW.isoformat(),
            }
        }

    def test_an_attempt_stands_in_the_run_and_says_when_the_next_is(self) -> None:
        rows = rows_of(EXAMPLES[CallbackAttempted])
        shown = {
            "callback_sent_at": "2026-05-17T12:30:15.123456Z",
            "callback_status_code": 503,
            "callback_error": None,
        }
        again = {"run_id": RUN, "attempts": 1, "next_at": NOW.isoformat()}
        assert rows.patches == {
            RUNS: {(RUN,): {"id": RUN, "fields": shown}},
            CALLBACKS: {(RUN,): again},
        }
        assert rows.deletions == []

    def test_after_the_last_attempt_nobody_waits(self) -> None:
        last = EXAMPLES[CallbackAttempted].model_copy(update={"next_at": None})
        assert rows_of(last).deletions == [Deletion(CALLBACKS, "run_id", RUN)]

"""An example of each message about the summaries of an agent, and their histories."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from libs.contracts.agent.conversations import Usage, main_conversation
from libs.contracts.agent.summaries import (
    SummariesDeleted,
    SummarisedMessages,
    SummarizeMessages,
    SummaryArchived,
    SummaryFailed,
    SummaryNotArchived,
    SummaryPartWritten,
    SummaryRequested,
    SummaryWritten,
    summaries_id,
    summary_passage_id,
)
from libs.contracts.bus_messages import Command, Event
from tests.contract.agent_folder_examples import AGENT
from tests.contract.file_examples import AT

SUMMARY = "summary-15151515-1515-4515-8515-151515151515"
SUMMARIES = summaries_id(AGENT)
MESSAGES = SummarisedMessages(
    conversation_id=main_conversation(AGENT),
    first=3,
    last=9,
    count=4,
    bytes=2_000,
    start=AT - timedelta(hours=1),
    end=AT,
)
USED = Usage(prompt_tokens=100, completion_tokens=20)


def of_summary(kind: type[Event], **fields: Any) -> Event:
    """An event about a summary of the agent."""
    return kind(
        originator_id=SUMMARIES,
        originator_version=1,
        timestamp=AT,
        agent_id=AGENT,
        summary_id=SUMMARY,
        **fields,
    )


COMMANDS: list[Command] = [
    SummarizeMessages(
        summary_id=SUMMARY,
        agent_id=AGENT,
        message_count=10,
        start_date=AT - timedelta(days=1),
        end_date=AT,
        summary_length="long",
        save_to_archival=True,
        request_hash="sha256-of-the-request",
        retry=True,
    ),
]
REQUESTED = of_summary(
    SummaryRequested,
    messages=MESSAGES,
    summary_length="long",
    save_to_archival=True,
    request_hash="sha256-of-the-request",
)
PART = of_summary(SummaryPartWritten, level=0, covered=7, text="- Ada likes tea.", usage=USED)
WRITTEN = of_summary(
    SummaryWritten, text="Ada likes tea.", model="openai/gpt-4o-mini", usage=USED.plus(USED)
)
FAILED = of_summary(
    SummaryFailed,
    error_type="llm_rate_limit",
    message="Rate limited by the model",
    detail="429 from the provider",
)
ARCHIVED = of_summary(SummaryArchived, passage_id=summary_passage_id(SUMMARY))
NOT_ARCHIVED = of_summary(SummaryNotArchived, reason="The memory service did not answer")
DELETED = SummariesDeleted(
    originator_id=SUMMARIES, originator_version=1, timestamp=AT, agent_id=AGENT
)
EVENTS: list[Event] = [REQUESTED, PART, WRITTEN, FAILED, ARCHIVED, NOT_ARCHIVED, DELETED]
HISTORY = [
    *(REQUESTED, PART, WRITTEN, ARCHIVED),
    *(REQUESTED, FAILED),
    *(REQUESTED, PART, PART.model_copy(update={"level": 1, "covered": 1})),
    *(WRITTEN, NOT_ARCHIVED),
]
DELETED_HISTORY = [REQUESTED, DELETED]

SUBJECTS = {
    "SummarizeMessages": f"agent.command.messages.summarize.org-1.{SUMMARIES}",
    **{
        name: f"agent.event.{topic}.org-1.{SUMMARY}"
        for name, topic in (
            ("SummaryRequested", "summary.requested"),
            ("SummaryPartWritten", "summary_part.written"),
            ("SummaryWritten", "summary.written"),
            ("SummaryFailed", "summary.failed"),
            ("SummaryArchived", "summary.archived"),
            ("SummaryNotArchived", "summary.not_archived"),
        )
    },
    "SummariesDeleted": f"agent.event.summaries.deleted.org-1.{SUMMARIES}",
}

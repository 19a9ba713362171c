"""The rows of an agent's conversations in the old database: messages, runs, and what is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from deploy.letta_migration.messages import messages_of, utc
from deploy.letta_migration.runs import PastRun, PendingRequest
from deploy.letta_migration.source import LettaDatabase, Row
from libs.contracts.agent.approvals import RecordedAnswer
from libs.contracts.letta.conversations import ConversationConfig

MESSAGES_PAGE = 1_000
# A message may become visible after messages with higher sequence ids: its transaction was open.
# So many of the newest are looked at again by the next pass.
RECENT_MAX = 1_000


@dataclass(slots=True)
class Page:
    """Messages in their order, with the runs that they belong to and where each of these begins."""

    rows: list[Row]
    runs: dict[str, PastRun] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)


class ConversationRows:
    """Reads the conversations of one agent."""

    def __init__(self, database: LettaDatabase, agent_id: str) -> None:
        self.database = database
        self.agent_id = agent_id

    def shown_in(self, conversation_id: str) -> list[str]:
        """The ids of the messages that models are shown of a conversation, in their order."""
        rows = self.database.rows(
            "conversation_messages",
            "conversation_id = %s and in_context and not is_deleted",
            [conversation_id],
            key=("position", "id"),
        )
        return [row["message_id"] for row in rows]

    def row_of(self, message_id: str) -> Row | None:
        """The row of a message."""
        return next(self.database.rows("messages", "id = %s", [message_id]), None)

    def pages(self, recent: Sequence[int]) -> Iterator[Page]:
        """The messages that were not taken over yet, in the order of the old server; `recent` are
        the newest of the others, by their sequence ids."""
        rows: list[Row] = []
        oldest = recent[0] if len(recent) == RECENT_MAX else 0
        for row in self.database.rows(
            "messages",
            "agent_id = %s and sequence_id >= %s and sequence_id <> all(%s) and not is_deleted",
            [self.agent_id, oldest, [*recent]],
            key=("sequence_id",),
            page=MESSAGES_PAGE,
        ):
            rows.append(row)
            if len(rows) == MESSAGES_PAGE:
                yield self.with_runs(rows)
                rows = []
        if rows:
            yield self.with_runs(rows)

    def with_runs(self, rows: list[Row]) -> Page:
        """A page with the runs of its messages."""
        names = list({row["run_id"] for row in rows if row.get("run_id")})
        firsts = self.database.connection.execute(
            "select run_id, min(sequence_id) as first from messages"
            " where run_id = any(%s) and not is_deleted group by run_id",
            [names],
        )
        return Page(rows, self.runs(names), {row["run_id"]: row["first"] for row in firsts})

    def runs(self, names: list[str]) -> dict[str, PastRun]:
        """Runs by their ids, with what belongs to them."""
        if not names or "runs" not in self.database.tables:
            return {}
        steps: dict[str, list[Row]] = {}
        for step in self.database.rows(
            "steps", "run_id = any(%s)", [names], key=("created_at", "id")
        ):
            steps.setdefault(step["run_id"], []).append(step)
        metrics = {
            row["id"]: row for row in self.database.rows("run_metrics", "id = any(%s)", [names])
        }
        step_ids = [step["id"] for of_run in steps.values() for step in of_run]
        measured = {
            row["id"]: row for row in self.database.rows("step_metrics", "id = any(%s)", [step_ids])
        }
        return {
            row["id"]: PastRun(row, steps.get(row["id"], ()), metrics.get(row["id"]), measured)
            for row in self.database.rows("runs", "id = any(%s) and not is_deleted", [names])
        }

    def silent_runs(self) -> Iterator[Row]:
        """The runs that have no messages."""
        return self.database.rows(
            "runs",
            "agent_id = %s and not is_deleted and not exists"
            " (select from messages where messages.run_id = runs.id)",
            [self.agent_id],
            key=("created_at", "id"),
        )

    def isolated_blocks(self, row: Row) -> dict[str, str]:
        """The copies that stand in a conversation for blocks of the agent."""
        own = {
            link["block_label"]: link["block_id"]
            for link in self.database.rows(
                "blocks_agents", "agent_id = %s", [self.agent_id], key=("block_id",)
            )
        }
        links = self.database.rows(
            "blocks_conversations", "conversation_id = %s", [row["id"]], key=("block_id",)
        )
        return {
            own[link["block_label"]]: link["block_id"]
            for link in links
            if link["block_label"] in own
        }


def recorded_answers(asked: PendingRequest, row: Row) -> list[RecordedAnswer]:
    """The answers to calls that waited, where the first message of the next run has them."""
    if row.get("role") != "approval" or row.get("tool_calls"):
        return []
    [message] = messages_of(row, speaks=True)
    answers = []
    for answer in message.content if isinstance(message.content, list) else []:
        if not isinstance(answer, dict) or answer.get("tool_call_id") not in asked.call_ids:
            continue
        approve = answer.get("approve")
        kind = "returned" if "tool_return" in answer else "approved" if approve else "denied"
        answers.append(
            RecordedAnswer.model_validate(
                {
                    "tool_call_id": answer["tool_call_id"],
                    "kind": kind,
                    "reason": answer.get("reason"),
                    "content": answer.get("tool_return"),
                    "status": answer.get("status") or "success",
                    "arguments_hash": "",
                }
            )
        )
    return answers if len(answers) == len(asked.call_ids) else []


def conversation_config(row: Row, isolated: dict[str, str]) -> ConversationConfig:
    """A conversation beside the agent's own, as clients read it."""
    last = row.get("last_message_at")
    return ConversationConfig(
        id=row["id"],
        agent_id=row["agent_id"],
        summary=row["summary"],
        model=row.get("model"),
        model_settings=row.get("model_settings"),
        isolated_blocks=isolated,
        last_message_at=utc(last) if last else None,
        created_by_id=row["_created_by_id"],
        last_updated_by_id=row["_last_updated_by_id"],
        created_at=utc(row["created_at"]),
        updated_at=utc(row["updated_at"] or row["created_at"]),
    )

"""Tool calls that wait for a yes or no, in agents' own conversations and in those beside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cli.message_printing import calls_of
from cli.run_streams import WAITS
from cli.server import Server

MESSAGES_MAX = 200  # since a call was made: answers to the calls beside it
RUNS_MAX = 1_000  # the newest that asked, of which conversations beside are found
PENDING = ["agent.pending_approval"]


def calls_of_all(server: Server) -> Iterator[dict[str, Any]]:
    """Each call that waits in any agent. Reads all agents, and the newest runs that asked."""
    for agent in server.pages("/v1/agents/", include=PENDING, show_hidden_agents=True):
        if agent["pending_approval"]:
            yield from _of_own_conversation(server, agent)
    yield from _of_conversations(server, agent_id=None)


def calls_of_agent(server: Server, agent_id: str) -> Iterator[dict[str, Any]]:
    """Each call that waits in one agent."""
    agent = server.get(f"/v1/agents/{agent_id}", include=PENDING)
    if agent["pending_approval"]:
        yield from _of_own_conversation(server, agent)
    yield from _of_conversations(server, agent_id=agent_id)


def own_calls(server: Server, agent_id: str) -> list[dict[str, Any]]:
    """The calls that wait in an agent's own conversation."""
    agent = server.get(f"/v1/agents/{agent_id}", include=PENDING)
    return list(_of_own_conversation(server, agent)) if agent["pending_approval"] else []


def _of_own_conversation(server: Server, agent: Any) -> Iterator[dict[str, Any]]:
    path = f"/v1/agents/{agent['id']}/messages"
    # As in V1: of an agent the newest messages, the oldest of them first.
    messages = server.get(path, limit=MESSAGES_MAX, order="desc", conversation_id="default")
    yield from _unanswered(reversed(messages), agent, None)


def _of_conversations(server: Server, agent_id: str | None) -> Iterator[dict[str, Any]]:
    """A conversation waits if its newest run has asked."""
    runs = server.pages("/v1/runs/", limit=RUNS_MAX, stop_reason=WAITS, agent_id=agent_id)
    asked: dict[str, Any] = {}
    for run in runs:
        if run["conversation_id"]:
            asked.setdefault(run["conversation_id"], run)
    for conversation_id, run in asked.items():
        newest = server.get("/v1/runs/", conversation_id=conversation_id, limit=1)
        if [each["id"] for each in newest] == [run["id"]]:
            agent = server.get(f"/v1/agents/{run['agent_id']}")
            path = f"/v1/conversations/{conversation_id}/messages"
            messages = server.get(path, limit=MESSAGES_MAX, order="desc")
            yield from _unanswered(messages, agent, conversation_id)


def _unanswered(
    messages: Iterable[Any], agent: Any, conversation_id: str | None
) -> Iterator[dict[str, Any]]:
    """The calls of the last request that no answer came to, of messages with the newest first."""
    answered: set[str] = set()
    for message in messages:
        if message["message_type"] == "approval_response_message":
            answered |= {answer["tool_call_id"] for answer in message["approvals"] or ()}
        elif message["message_type"] == "approval_request_message":
            for call in calls_of(message):
                if call["tool_call_id"] not in answered:
                    yield {
                        "agent_id": agent["id"],
                        "agent_name": agent["name"],
                        "conversation_id": conversation_id,
                        "run_id": message["run_id"],
                        "date": message["date"],
                        **call,
                    }
            return

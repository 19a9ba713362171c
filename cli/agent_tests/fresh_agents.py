"""Agents that are made for one case each, and deleted afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from uuid import uuid4

from cli.agent_tests.agent_files import create_request, tool_requests
from cli.agent_tests.agent_under_test import AgentUnderTest
from cli.agent_tests.mocks import Mocks
from cli.agent_tests.own_tools import OwnTools
from cli.agent_tests.scenarios import Mock, ModelKind
from cli.agent_tests.server_parts import ids_of_parts, limit, mcp_tools_named
from cli.exit_codes import CommandError
from cli.server import Server
from libs.agent_toml import AgentDefinition
from libs.contracts.agent.scripted_replies import HANDLE, METADATA_KEY, ScriptedReply

TAG = "heeler-test"  # of every agent that was made for a test
TAG_KEPT = "heeler-test-kept"  # of those that --keep has left there
SUFFIX_CHARACTERS = 8
# A test that was killed leaves its agent behind; no case takes that long.
LEFT_BEHIND_AGE = timedelta(hours=1)
LEFT_BEHIND_MAX = 1_000
# What a file says for its own model and provider, which another model does not take.
OF_THE_REAL_MODEL = ("model_settings", "context_window_limit", "compaction_settings", "embedding")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The agent of a case: what its file says, its model, and what is not as in the file."""

    agent: AgentDefinition
    kind: ModelKind = "scripted"
    replies: Sequence[ScriptedReply] = ()
    mocks: Sequence[Mock] = ()
    memory: Mapping[str, str] = field(default_factory=dict)


class FreshAgents:
    """Makes the agents of cases on a server. As a context it deletes what killed tests have left
    there, and in the end what its own have in common.

    Args:
        keep: whether agents stay, so that one can look into them.
        update_tools: whether tools of the server may be changed into those of the files.
    """

    def __init__(self, server: Server, *, keep: bool = False, update_tools: bool = False) -> None:
        self.server = server
        self.keep = keep
        self.tools = OwnTools(server, update=update_tools)
        self._there: set[str] = set()
        self._is_over = False

    def __enter__(self) -> Self:
        sweep(self.server, datetime.now(UTC))
        return self

    def __exit__(self, *_: object) -> None:
        if not self.keep:
            self.delete_agents()
            self.tools.delete()

    def delete_agents(self) -> None:
        """Delete the agents that there are, also where their cases go on; those that are made
        from now on are deleted at once. Safe to repeat."""
        self._is_over = True
        for agent_id in tuple(self._there):
            self._delete(agent_id)

    def _delete(self, agent_id: str) -> None:
        from letta_client import NotFoundError

        with suppress(NotFoundError):
            self.server.delete(f"/v1/agents/{agent_id}")
        self._there.discard(agent_id)

    @contextmanager
    def fresh(self, wanted: Wanted) -> Iterator[AgentUnderTest]:
        """An agent of its own, deleted in the end, however that comes. Raises CommandError."""
        for name, tool in tool_requests(wanted.agent).items():
            self.tools.provide(name, tool)
        request = request_of(create_request(wanted.agent), wanted, TAG_KEPT if self.keep else TAG)
        request |= ids_of_parts(self.server, wanted.agent)
        agent: Any = self.server.post("/v1/agents/", request)
        self._there.add(agent["id"])
        try:
            if self._is_over:
                raise CommandError("The tests were interrupted")
            limit(self.server, agent, wanted.agent)
            mocks = Mocks(wanted.mocks, agent["tools"], more=mcp_tools_named(wanted.agent))
            yield AgentUnderTest(self.server, agent, mocks, wanted.kind)
        finally:
            if not self.keep:
                self._delete(agent["id"])


def request_of(request: dict[str, Any], wanted: Wanted, tag: str) -> dict[str, Any]:
    """The request of the file, as this case wants it."""
    changed = {
        **request,
        "name": f"{request['name']}-test-{uuid4().hex[:SUFFIX_CHARACTERS]}",
        "tags": [*request["tags"], tag],
        "memory_blocks": with_values(request["memory_blocks"], wanted.memory),
    }
    if wanted.kind == "real":
        return changed
    replies = [reply.model_dump(exclude_defaults=True) for reply in wanted.replies]
    parallel = (request.get("model_settings") or {}).get("parallel_tool_calls")
    return {
        **{name: value for name, value in changed.items() if name not in OF_THE_REAL_MODEL},
        **({"parallel_tool_calls": parallel} if parallel is not None else {}),
        "model": HANDLE,
        "metadata": {**request["metadata"], METADATA_KEY: replies},
    }


def with_values(blocks: Sequence[Any], memory: Mapping[str, str]) -> list[Any]:
    """The blocks with other values to begin with. Raises CommandError."""
    labels = [block["label"] for block in blocks]
    for label in memory:
        if label not in labels:
            raise CommandError(f"The agent has no block '{label}', but {', '.join(labels)}")
    return [{**block, "value": memory.get(block["label"], block["value"])} for block in blocks]


def sweep(server: Server, now: datetime, age: timedelta = LEFT_BEHIND_AGE) -> int:
    """Delete the agents of that age which earlier tests have left behind; returns how many."""
    left = [
        agent
        for agent in server.pages("/v1/agents/", tags=[TAG], limit=LEFT_BEHIND_MAX)
        if now - datetime.fromisoformat(agent["created_at"]) >= age
    ]
    for agent in left:
        server.delete(f"/v1/agents/{agent['id']}")
    return len(left)

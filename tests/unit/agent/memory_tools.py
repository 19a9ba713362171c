"""The tools of the memory service as a process of the agent service carries them out."""

from __future__ import annotations

from typing import Any

from libs.contracts.bus_messages import Accepted, Command, Context, Rejected
from libs.contracts.tools.tool_permission_evaluation import ToolPolicies
from services.agent.adapters.conversation_search import FoundMessage, Search
from services.agent.adapters.tool_router import ToolRouter
from services.agent.app import tool_router
from tests.clock_and_ids import ManualClock
from tests.contract.examples import BLOCK, SHARED_BLOCK

CONTEXT = Context("m-1", org="org-1", correlation_id="c-1")


class ToldBus:
    def __init__(self, *answers: Accepted | Rejected | Exception) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[Command, Context]] = []

    async def request(
        self, command: Command, context: Context, *, seconds_max: float = 10.0
    ) -> Accepted | Rejected:
        self.sent.append((command, context))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class ToldQueries:
    def __init__(self, found: list[FoundMessage] | Exception | None = None) -> None:
        self.found = found or []
        self.searches: list[Search] = []
        self.named: dict[str, FoundMessage] = {}
        self.shared_label = "shared"
        self.archive_owners: dict[str, str] = {}

    async def archive_owner(self, org: str, agent_id: str) -> str:
        return self.archive_owners.get(agent_id, agent_id)

    async def labels(self, org: str, block_ids: list[str]) -> dict[str, str]:
        known = {BLOCK: "human", SHARED_BLOCK: self.shared_label}
        return {block_id: known[block_id] for block_id in block_ids}

    async def search_messages(self, search: Search) -> list[FoundMessage]:
        self.searches.append(search)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    async def messages_named(self, search: Search, ids: list[str]) -> list[FoundMessage]:
        return [self.named[block_id] for block_id in ids if block_id in self.named]


def runner(bus: Any = None, queries: Any = None, clock: Any = None) -> ToolRouter:
    return tool_router(
        bus or ToldBus(Accepted(result={"messages": []})),
        queries or ToldQueries(),
        clock or ManualClock(),
        policies=ToolPolicies,
    )

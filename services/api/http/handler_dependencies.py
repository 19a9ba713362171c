"""The adapters and values that every handler has at hand."""

from __future__ import annotations

from dataclasses import dataclass

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.bus_messages import KEYED, Accepted, Command, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.encryption.sealer import Sealer
from services.api.adapters.agents.agent_lines import AgentLines
from services.api.adapters.agents.awaited_forks import AwaitedForks
from services.api.adapters.agents.fleet_queries import FleetQueries
from services.api.adapters.agents.past_reads import PastReads
from services.api.adapters.agents.tag_queries import TagQueries
from services.api.adapters.conversations.context_message_queries import ContextMessageQueries
from services.api.adapters.conversations.conversation_run_queries import ConversationRunQueries
from services.api.adapters.conversations.identical_request_runs import IdenticalRequestRuns
from services.api.adapters.conversations.message_queries import MessageQueries
from services.api.adapters.conversations.message_search_queries import MessageSearchQueries
from services.api.adapters.conversations.run_follower import RunInbox
from services.api.adapters.conversations.run_follower_queries import RunQueries
from services.api.adapters.memory.block_history_queries import BlockHistoryQueries
from services.api.adapters.memory.folder_queries import FolderQueries
from services.api.adapters.memory.uploaded_file_store import Uploads
from services.api.adapters.resource_query_builder import ResourceQueries
from services.api.http.callers import org_of
from services.api.http.error_responses import refusal_problem
from services.api.http.export_places import ExportPlaces
from services.api.http.request_parsing import AnyRequest, context_of
from services.api.http.text_work import TextWorks
from services.api.settings import CreationDefaults

COMMAND_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Api:
    """The adapters of the api."""

    reads: ResourceQueries
    messages: MessageQueries
    context: ContextMessageQueries
    runs: RunQueries
    conversation_runs: ConversationRunQueries
    bus: Bus
    clock: Clock
    ids: Ids
    inbox: RunInbox
    identical_request_runs: IdenticalRequestRuns
    search: MessageSearchQueries
    tags: TagQueries
    sealer: Sealer
    block_history: BlockHistoryQueries
    folders: FolderQueries
    uploads: Uploads
    past: PastReads
    agent_lines: AgentLines
    exports: ExportPlaces
    fleets: FleetQueries
    awaited_forks: AwaitedForks
    defaults: CreationDefaults
    text_works: TextWorks

    def new_id(self, request: AnyRequest, prefix: str, *scope: str) -> str:
        """A fresh id, or with an Idempotency-Key the same one each time."""
        key = request.headers.get("idempotency-key")
        return derived_id(prefix, org_of(request), *scope, key) if key else self.ids.new(prefix)

    async def send(
        self,
        request: AnyRequest,
        command: Command,
        *,
        message_id: str = "",
        keyed: bool = True,
        seconds_max: float = COMMAND_SECONDS_MAX,
    ) -> Accepted:
        """Send a command; raises the answer that its refusal is, and with an Idempotency-Key that
        came before with another request a 409. A command that tells its requests apart itself is
        not `keyed`."""
        name = message_id or self.new_id(request, "cmd", request.method, request.url.path)
        context = context_of(
            request, name, await fingerprint(request, self.sealer) if keyed else ""
        )
        reply = await self.bus.request(command, context, seconds_max=seconds_max)
        if isinstance(reply, Rejected):
            raise refusal_problem(reply)
        return reply


async def fingerprint(request: AnyRequest, sealer: Sealer) -> str:
    """A keyed digest of a request, to compare those with the same Idempotency-Key; empty without a
    key. A body may hold secrets, so nobody without the keys can test guesses at it."""
    if not request.headers.get("idempotency-key"):
        return ""
    first = f"{request.method} {request.url.path.rstrip('/')}\n".encode()
    return KEYED + sealer.keyed_digest(first, await request.body())


def api_of(request: AnyRequest) -> Api:
    """The adapters, from the application."""
    api: Api = request.app.state.api
    return api

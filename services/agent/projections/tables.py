"""The tables that clients and other services read."""

from __future__ import annotations

from libs.contracts.bus_messages import Json
from libs.eventstore.read_model_rows import Table

AGENTS = Table("agents")
MESSAGES = Table("messages", aggregate="conversation_id")
RUNS = Table("runs", aggregate="conversation_id")
STEPS = Table("steps", aggregate="conversation_id")
CONVERSATIONS = Table("conversations")
AGENT_TAGS = Table("agent_tags", key=("agent_id", "tag"), aggregate="agent_id")
AGENT_CAPABILITIES = Table("agent_capabilities", key=("agent_id", "name"), aggregate="agent_id")
CALLBACKS = Table("callbacks", key=("run_id",), aggregate="conversation_id")
CALLED_RUNS = Table("called_runs", key=("run_id",), aggregate="conversation_id")
HEARTBEAT_PAUSES = Table("heartbeat_pauses", key=("conversation_id",), aggregate="conversation_id")
APPROVALS = Table("approvals", key=("conversation_id",), aggregate="conversation_id")
SUMMARIES = Table("summaries", aggregate="summaries_id")
BATCHES = Table("batches")
BATCH_ITEMS = Table("batch_items", aggregate="batch_id")
RUN_REPLAYS = Table("run_replays")
RUN_REPLAY_STEPS = Table("run_replay_steps", key=("replay_id", "number"), aggregate="replay_id")
READ_MODELS = (
    *(AGENTS, AGENT_TAGS, AGENT_CAPABILITIES, BATCHES, BATCH_ITEMS, CALLBACKS, CALLED_RUNS),
    *(APPROVALS, CONVERSATIONS, HEARTBEAT_PAUSES, MESSAGES, RUN_REPLAYS, RUN_REPLAY_STEPS, RUNS),
    *(STEPS, SUMMARIES),
)


def json_list(values: list[str]) -> list[Json]:
    """A list of strings as JSON."""
    return list(values)

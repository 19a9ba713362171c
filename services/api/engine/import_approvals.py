"""Has the agents of a file wait for an approval where a tool of theirs needs one: the histories of
agents come as they were, and on another server nobody asked for it, or a file says so."""

from __future__ import annotations

from libs.contracts.agent.agents import AgentCreated, AgentUpdated
from libs.contracts.appended_histories import PastEvent
from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.letta.tool_rules import RequiresApprovalToolRule
from services.api.adapters.agents.import_queries import ImportQueries

OF_DESIGNS = frozenset({AgentCreated.topic, AgentUpdated.topic})


class Approvals:
    """Gives agents the rules of tools that need an approval by themselves, as attaching them
    does."""

    def __init__(self, queries: ImportQueries, org: str) -> None:
        self.queries = queries
        self.org = org
        self.latest: tuple[list[str], dict[str, str]] = ([], {})

    async def add(self, past: PastEvent) -> PastEvent:
        """An event of an agent, with the rules for its tools where it says which it has."""
        if past.topic not in OF_DESIGNS:
            return past
        tool_ids = texts(past.payload.get("tool_ids"))
        names = await self.needing_approval(tool_ids)
        if not names:
            return past
        return past.model_copy(update={"payload": with_rules(past.payload, tool_ids, names)})

    async def needing_approval(self, tool_ids: list[str]) -> dict[str, str]:
        """The names of those of these tools that need an approval, by id."""
        if tool_ids != self.latest[0]:
            self.latest = (
                tool_ids,
                await self.queries.tools_needing_approval(self.org, tool_ids),
            )
        return self.latest[1]


def with_rules(payload: JsonObject, tool_ids: list[str], names: dict[str, str]) -> JsonObject:
    """The data of an agent's event, with a rule for each of these tools. Rules know a tool by the
    name that it had when the agent got it: where a file does not say one for each, by that which it
    has now."""
    known_as = texts(payload.get("tools"))
    if len(set(known_as)) != len(tool_ids):
        known_as = [names.get(tool_id, tool_id) for tool_id in tool_ids]
    by_id = dict(zip(tool_ids, known_as, strict=False))
    config = payload.get("config")
    config = {**config} if isinstance(config, dict) else {}
    given = config.get("tool_rules")
    rules: list[Json] = [*given] if isinstance(given, list) else []
    for tool_id in names:
        rule = RequiresApprovalToolRule(tool_name=by_id[tool_id]).model_dump(mode="json")
        if rule not in rules:
            rules.append(rule)
    return {**payload, "tools": [*known_as], "config": {**config, "tool_rules": rules}}


def texts(value: Json) -> list[str]:
    """The texts of a list; what is no list has none."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []

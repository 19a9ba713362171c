"""A list that looks at its newest items first is the list that looks at all of them."""

from __future__ import annotations

from random import Random
from typing import Any

import psycopg
import pytest

from libs.contracts.bus_messages import DEFAULT_ORG as ORG
from libs.eventstore.connection_pool import Database, open_pool
from services.api.adapters import resource_query_builder as building
from services.api.adapters.resource_query_builder import (
    NOT_HIDDEN,
    Filter,
    Resource,
    ResourceQueries,
    Slice,
    filter_of,
)
from services.api.resources.agents.agents import AGENTS, AgentFilters
from services.api.resources.memory.blocks import BLOCKS, BlockPage
from tests.contract.many_agents import id_of, make_agents
from tests.servers import SERVICE_PASSWORD, PostgresServer

COUNT, LOOKED_AT, TRIES = 120, 9, 60
# Of few, of half and of nearly all, so that any of the looks may fill the page.
MIX = """
update agent.agents set created_at = date_trunc('minute', created_at), hidden = {n} % 7 = 0,
    tags = array['all'] || case when {n} % 2 = 0 then array['half'] else '{{}}'::text[] end
        || case when {n} % 40 = 3 then array['few'] else '{{}}'::text[] end
"""
NUMBER = "('x' || substr(id, 7, 8))::bit(32)::int"
AGENT_ASKED: dict[str, list[Any]] = {
    "tags": [None, None, ["all"], ["half"], ["few"], ["half", "few"], ["none"]],
    "match_all_tags": [False, True],
    "query_text": [None, None, "gent 1", "zebra", "other", "%"],
}
BLOCK_ASKED: dict[str, list[Any]] = {
    "label_search": [None, "a", "human", "zebra"],
    "value_search": [None, None, "e", "zebra"],
    "connected_to_agents_count_gt": [None, None, 0, 1],
}


def everything(resource: Resource, found: Filter, *_: object) -> list[str]:
    """The naive place of a page."""
    return [f"{resource.view} v where {found.sql}"]


def parts(random: Random, kind: str) -> Slice:
    """Any part of a list."""
    before, after = (
        random.choice([None, None, id_of(kind, random.randrange(1, COUNT))]) for _ in range(2)
    )
    limit = random.choice([0, 1, 3, LOOKED_AT, 50, None])
    return Slice(before, after, limit, random.choice(["asc", "desc"]))


@pytest.mark.parametrize(
    ("resource", "model", "values", "keys"),
    [
        (AGENTS, AgentFilters, AGENT_ASKED, [*AGENTS.sort_keys]),
        (BLOCKS, BlockPage, BLOCK_ASKED, [*BLOCKS.sort_keys]),
    ],
)
async def test_a_page_is_the_same_wherever_it_is_looked_for(
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    resource: Resource,
    model: Any,
    values: dict[str, list[Any]],
    keys: list[str],
) -> None:
    name, random = f"newest_first_{resource.kind}", Random(resource.kind)
    admin_url = postgres_server.create_migrated_database(name)
    with psycopg.connect(admin_url, autocommit=True) as admin:
        make_agents(admin, COUNT)
        admin.execute(MIX.format(n=NUMBER).encode())
    url = postgres_server.server.url(name, user="heeler_api", password=SERVICE_PASSWORD)
    places_of, filled = building.places_of, 0
    async with open_pool(url) as pool:
        reads = ResourceQueries(Database(pool))
        for _ in range(TRIES):
            asked = model(**{field: random.choice(some) for field, some in values.items()})
            part, key = parts(random, resource.kind), random.choice(keys)
            hidden = resource is AGENTS and random.random() < 0.5
            pages = []
            for places in (places_of, everything):
                found = filter_of(asked, ORG)
                found = found.add(NOT_HIDDEN) if hidden else found
                monkeypatch.setattr(building, "places_of", places)
                monkeypatch.setattr(building, "NEWEST_LOOKED_AT", LOOKED_AT)
                pages.append(await reads.page(resource, found, part, key=key, document="v.id"))
            assert pages[0] == pages[1], f"{asked!r} {part} by {key}"
            filled += len(pages[0]) > 2
            found = filter_of(asked, ORG)
            counted = await reads.count(resource, found)
            assert counted == await reads.number(
                f"select count(*) from {resource.view} v where {filter_of(asked, ORG).sql}",
                found.values,
            )
    assert filled > TRIES / 4

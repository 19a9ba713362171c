"""What a resource declares fits together, and its routes are served."""

from __future__ import annotations

import re
import string
from typing import get_args

import pytest
from litestar.handlers import HTTPRouteHandler
from pydantic import BaseModel

from services.agent.projections.agents import SEARCHED_OR_REPLACED_FIELDS
from services.api import resources
from services.api.adapters.resource_query_builder import (
    ALL_OF_ORG,
    Resource,
    Where,
    conditions_of,
    filter_of,
    placeholders,
)
from services.api.app import HANDLERS, route_handlers
from services.api.http.request_parsing import Page, Query
from services.api.resources.agents.agents import AGENTS, AgentFilters, AgentPage
from services.api.resources.conversations.runs import RUNS, ActiveRunPage, RunPage
from services.api.resources.conversations.steps import STEPS, StepPage
from services.api.resources.memory.blocks import BLOCKS, BlockFilters, BlockPage
from services.api.resources.server.dead_letters import DEAD_LETTERS, DeadLetterPage
from services.api.resources.server.models import ModelFilters
from services.api.resources.tools.tool_runs_and_usage import CALLS, CallPage

PAGES: list[tuple[Resource, type[Page]]] = [
    (AGENTS, AgentPage),
    (BLOCKS, BlockPage),
    (RUNS, RunPage),
    (RUNS, ActiveRunPage),
    (DEAD_LETTERS, DeadLetterPage),
    (STEPS, StepPage),
    (CALLS, CallPage),
]
ASKED: list[type[Query]] = [AgentFilters, BlockFilters, ModelFilters, *(page for _, page in PAGES)]
# What is no condition on a row.
OTHERS = {
    *Page.model_fields,
    *("order_by", "include", "include_relationships", "show_hidden_agents"),
}


def test_every_route_is_collected_once() -> None:
    paths = [(path, str(handler.http_methods)) for handler in HANDLERS for path in handler.paths]
    assert len(paths) == len(set(paths))
    there = {handler.fn.__module__.rpartition(".")[2] for handler in route_handlers(resources)}
    assert there >= {
        "agents",
        "agent_blocks",
        "blocks",
        "dead_letters",
        "agent_messages",
        "runs",
        "steps",
    }
    assert all(isinstance(handler, HTTPRouteHandler) for handler in HANDLERS)


@pytest.mark.parametrize(
    ("resource", "page"), PAGES, ids=lambda case: getattr(case, "__name__", "")
)
def test_a_list_is_ordered_by_sort_keys_of_its_resource(
    resource: Resource, page: type[BaseModel]
) -> None:
    field = page.model_fields.get("order_by")
    keys = set(get_args(field.annotation)) if field else {"created_at"}
    assert keys <= resource.sort_keys.keys()
    assert resource.created_sort_keys.keys() <= resource.sort_keys.keys()


@pytest.mark.parametrize("asked", ASKED)
def test_every_query_parameter_is_a_condition(asked: type[Query]) -> None:
    conditions = dict(conditions_of(asked))
    assert conditions.keys() == asked.model_fields.keys() - OTHERS
    for where in conditions.values():
        assert placeholders(where.sql) - {""} <= asked.model_fields.keys()
        assert set(string.Formatter().parse(where.sql))


def test_what_is_not_asked_is_no_condition() -> None:
    assert filter_of(AgentPage(include=[]), "org-1").sql == ALL_OF_ORG
    assert filter_of(ModelFilters(), None).sql == "true"


def test_conditions_name_their_values() -> None:
    found = filter_of(AgentFilters(tags=["a"], match_all_tags=True, query_text="50%"), "org-1")
    assert found.conditions == [
        ALL_OF_ORG,
        "v.tags @> %(tags)s",
        "(v.name ~* ('***=' || %(query_text)s::text)"
        " or v.fields->>'description' ~* ('***=' || %(query_text)s::text))",
    ]
    assert found.values == {"org": "org-1", "tags": ["a"], "query_text": "50%"}


def test_a_condition_on_no_is_one_too() -> None:
    assert "not v.background" in filter_of(RunPage(background=False), "org-1").sql
    assert "in ('created', 'running')" in filter_of(RunPage(active=True), "org-1").sql
    assert "created" not in filter_of(RunPage(active=False), "org-1").sql
    assert "identity_id = %(identity_id)s" in filter_of(BlockPage(identity_id="i"), "org-1").sql


@pytest.mark.parametrize(("name", "condition"), conditions_of(AgentFilters))
def test_the_column_fields_of_an_agents_row_has_what_a_filter_asks_for(
    name: str, condition: Where
) -> None:
    asked = re.findall(r"v\.fields->>'(\w+)'", condition.sql)
    assert {*asked} <= {*SEARCHED_OR_REPLACED_FIELDS}, (
        f"`{name}` finds no agent: add what it asks for in services/agent/projections/agents.py"
    )

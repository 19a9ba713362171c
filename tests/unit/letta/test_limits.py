"""Everything that a request may bring has a limit, and the page that lists them is right."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from deploy.limits import NO_LIMIT, PAGE, limits_of, models, page_text
from libs.contracts.letta import all_request_bodies, error_bodies
from libs.contracts.letta import request_size_limits as limits
from tests.fuzz.values import nested


def test_the_page_of_limits_is_current() -> None:
    assert PAGE.read_text() == page_text(), "run python -m deploy.limits, and look at the change"


@pytest.mark.parametrize("model", models("body") + models("query"))
def test_every_field_that_a_client_may_send_has_a_limit(model: type[BaseModel]) -> None:
    assert [field for field, words in limits_of(model) if NO_LIMIT in words] == []


def refusal(model: type[BaseModel], sent: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(sent)
    return str(error_bodies.validation_detail(refused.value, "body")["detail"])


AGENT: dict[str, Any] = {"name": "x", "model": "openai/gpt-4o-mini"}
SAID = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("model", "sent", "field", "said"),
    [
        (
            all_request_bodies.CreateAgent,
            {**AGENT, "name": "é" * 501},
            "name",
            "at most 500 characters",
        ),
        (all_request_bodies.UpdateAgent, {"name": "é" * 501}, "name", "at most 500 characters"),
        (all_request_bodies.CreateAgent, {**AGENT, "tags": ["x" * 100_000]}, "tags", "at most 500"),
        (all_request_bodies.UpdateAgent, {"tags": ["x"] * 1_001}, "tags", "at most 1000 items"),
        (all_request_bodies.UpdateAgent, {"system": "x" * 1_000_001}, "system", "at most 1000000"),
        (all_request_bodies.UpdateAgent, {"project_id": "x" * 501}, "project_id", "at most 500"),
        (all_request_bodies.UpdateAgent, {"timezone": "x" * 501}, "timezone", "at most 500"),
        (
            all_request_bodies.UpdateAgent,
            {"context_window_limit": 2**31},
            "context_window_limit",
            "less",
        ),
        (
            all_request_bodies.UpdateAgent,
            {"metadata": nested(33, lists=False)},
            "metadata",
            "32 levels",
        ),
        (
            all_request_bodies.UpdateAgent,
            {"metadata": {"k": [1] * 50_001}},
            "metadata",
            "50000 keys",
        ),
        (
            all_request_bodies.UpdateAgent,
            {"metadata": {"k": "x" * 524_288}},
            "metadata",
            "524288 bytes",
        ),
        (
            all_request_bodies.UpdateAgent,
            {"secrets": {"k": "x" * 100_001}},
            "secrets",
            "at most 100000",
        ),
        (all_request_bodies.CreateBlock, {"label": "x" * 501, "value": ""}, "label", "at most 500"),
        (
            all_request_bodies.CreateBlock,
            {"label": "x", "value": "y" * 1_000_001},
            "value",
            "1000000",
        ),
        (all_request_bodies.BlockUpdate, {"value": None}, "value", "leave it out"),
        (all_request_bodies.BlockUpdate, {"tags": None}, "tags", "leave it out"),
        (
            all_request_bodies.LettaRequest,
            {"messages": [SAID] * 1_001},
            "messages",
            "at most 1000 items",
        ),
        (
            all_request_bodies.LettaRequest,
            {"messages": [{**SAID, "otid": "x" * 501}]},
            "otid",
            "500",
        ),
        (
            all_request_bodies.LettaRequest,
            {"messages": [{**SAID, "content": [{"type": "text", "text": ""}] * 25_001}]},
            "content",
            "50000 keys and items",
        ),
    ],
)
def test_what_is_too_large_is_refused_by_its_name_and_its_limit(
    model: type[BaseModel], sent: Any, field: str, said: str
) -> None:
    detail = refusal(model, sent)
    assert f"'{field}'" in detail
    assert said in detail
    assert len(detail) < 10_000, "what was sent is not sent back whole"


@pytest.mark.parametrize("number", ["NaN", "inf", "-Infinity", "1e400"])
def test_a_number_as_text_is_finite(number: str) -> None:
    settings = {"provider_type": "openai", "temperature": number}
    assert "temperature" in refusal(
        all_request_bodies.CreateAgent, {**AGENT, "model_settings": settings}
    )


def test_what_honest_clients_send_is_within_the_limits() -> None:
    image = {"type": "base64", "media_type": "image/png", "data": "A" * 5_000_000}
    content = [{"type": "text", "text": "look"}, {"type": "image", "source": image}]
    all_request_bodies.LettaRequest.model_validate({"messages": [{**SAID, "content": content}]})
    schema = {
        "type": "json_schema",
        "json_schema": {"maximum": 2**53 - 1, "deep": nested(20, lists=False)},
    }
    all_request_bodies.CreateAgent.model_validate(
        {**AGENT, "system": "x" * 500_000, "response_format": schema, "tags": ["x"] * 500}
    )
    all_request_bodies.CreateBlock.model_validate(
        {"label": "x", "value": "y" * 500_000, "limit": 2**31 - 1}
    )


@pytest.mark.parametrize(
    ("body", "path", "said"),
    [
        (b'{"a": [1, 1e400]}', ("a", 1), "1.8e308"),
        (b'{"a": {"b": -1e400}}', ("a", "b"), "1.8e308"),
        (b'{"a": ' + b"9" * 101 + b"}", ("a",), "at most 100 digits"),
        (b"[" * 66 + b"]" * 66, (0,) * 65, "at most 64 levels"),
        (b"[" + b"1," * 100_000 + b"1]", (), "at most 100000 keys and items"),
    ],
)
def test_what_no_field_may_have_is_found_in_a_body(
    body: bytes, path: tuple[str | int, ...], said: str
) -> None:
    found = limits.unreadable(from_json(body))
    assert found is not None
    assert found[0] == path
    assert said in found[1]


def test_an_ordinary_body_is_readable() -> None:
    assert (
        limits.unreadable({"a": [1, 2.5, None, True, "x", 10**99], "b": nested(60, lists=True)})
        is None
    )

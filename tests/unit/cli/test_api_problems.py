"""What the server refuses, as people read it."""

from __future__ import annotations

from typing import Any

import httpx
import letta_client
import pytest
from pydantic import BaseModel, ValidationError

from cli.api_problems import explanation
from cli.exit_codes import ExitCode
from libs.contracts.letta import error_bodies


class Body(BaseModel):
    name: str
    limit: int


def explained(status: int, body: object) -> Any:
    """What the command says of an answer."""
    response = httpx.Response(status, json=body, request=httpx.Request("GET", "http://here/"))
    return explanation(letta_client.APIStatusError("refused", response=response, body=body))


def test_each_field_that_is_wrong_is_a_line_in_words() -> None:
    with pytest.raises(ValidationError) as refused:
        Body.model_validate({"limit": "many's \n"})

    told = explained(422, error_bodies.validation_detail(refused.value, "body"))

    assert told.code == ExitCode.REFUSED
    assert str(told).splitlines() == [
        "name: Field required",
        "limit: Input should be a valid integer, unable to parse string as an integer",
    ]


def test_an_id_of_the_wrong_form_is_named_without_the_words_of_a_program() -> None:
    told = explained(422, error_bodies.check_id("agent", "agent-1"))

    assert str(told) == "agent_id: String should match pattern 'agent-{uuid4}'"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"detail": "There is no such thing"}, "There is no such thing"),
        ({"detail": "[{'type': broken"}, "[{'type': broken"),
        ({"detail": {"message": "Wait", "code": "X"}}, "Wait"),
        ({"error": {"message": "No model", "type": "x"}}, "No model"),
    ],
)
def test_every_form_of_a_refusal_has_its_words(body: object, words: str) -> None:
    assert str(explained(409, body)) == words

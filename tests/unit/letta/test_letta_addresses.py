"""Addresses of models bear no credentials."""

from __future__ import annotations

import pytest

from libs.contracts.letta.url_redaction import without_credentials
from tests.contract.examples import EMBEDDING, LLM


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("http://[::1]:8000/v1?api-version=2", "http://[::1]:8000/v1?api-version=2"),
        ("https://ada:s3cret@models.example/v1", "https://models.example/v1"),
        ("https://a@b:s3cret@models.example", "https://models.example"),
        ("//ada:s3cret@models.example", "//models.example"),
        ("https://x/v1?api_key=s3cret", "https://x/v1"),
        ("https://x/v1?a=1&API-Key=s3cret&b=2#c", "https://x/v1?a=1&b=2#c"),
        ("https://x/v1?subscription-key=s3cret&access_token=s3cret", "https://x/v1"),
        ("https://x/v1/a@b", "https://x/v1/a@b"),
        ("no address", "no address"),
        (None, None),
    ],
)
def test_a_login_and_a_key_are_left_out(given: str | None, kept: str | None) -> None:
    assert without_credentials(given) == kept


def test_no_config_keeps_them() -> None:
    address = "https://ada:s3cret@models.example/v1"
    llm = type(LLM).model_validate({**LLM.model_dump(), "model_endpoint": address})
    embedding = type(EMBEDDING).model_validate(
        {**EMBEDDING.model_dump(), "embedding_endpoint": address, "azure_endpoint": address}
    )
    assert "s3cret" not in f"{llm!r} {embedding!r}"
    assert llm.model_endpoint == "https://models.example/v1"

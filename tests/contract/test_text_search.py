"""What contains a text: any case of letters, every character as it is, in linear time."""

from __future__ import annotations

import pytest

from libs.eventstore.text_search import has_text
from tests.contract.worlds import PostgresWorld

CONTAINED = [
    ("Ada likes TEA", "tea"),
    ("École", "école"),
    ("100 % of a_b", "% OF A_B"),
    ("C:\\temp\\new", "\\TEMP\\n"),
    ("what (is.this)?", "(IS.THIS)?"),
    ("***=x", "***=X"),
]


@pytest.mark.parametrize(("text", "part"), CONTAINED)
async def test_a_text_is_found_in_any_case_and_as_it_stands(
    postgres: PostgresWorld, text: str, part: str
) -> None:
    assert await contains(postgres, text, part)
    assert not await contains(postgres, text, f"{part}!")
    assert not await contains(postgres, "axb 100", "a_b")


async def contains(postgres: PostgresWorld, text: str, part: str) -> bool:
    [(found,)] = await postgres.admin(f"select {has_text('%s::text', '%s')}", text, part)
    return bool(found)


async def test_a_long_text_full_of_beginnings_costs_no_more_than_another(
    postgres: PostgresWorld,
) -> None:
    """Of `ILIKE` it takes two seconds: each of a million places is compared with 499 letters."""
    part = "a" * 499 + "b" + "a" * 499
    found = has_text("repeat('a', 3000000)", f"'{part}'")
    await postgres.admin(f"set statement_timeout = 1000; select {found}")

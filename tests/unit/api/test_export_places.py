"""Exports wait in line for their places, and hear when the line is too long."""

from __future__ import annotations

import asyncio

import pytest

from services.api.http.error_responses import Problem
from services.api.http.export_places import (
    EXPORTS_AT_ONCE_MAX,
    EXPORTS_OF_ORG_AT_ONCE_MAX,
    WAITING_OF_ORG_MAX,
    ExportPlaces,
)
from services.api.resources.agents.agent_file_export import FILES_SECONDS_MAX, wait_for_files
from tests.clock_and_ids import ManualClock

ORG, OTHER = "org-1", "org-2"


async def test_exports_wait_in_line_and_those_of_another_organisation_do_not() -> None:
    places, begun = ExportPlaces(), list[str]()
    may_end = asyncio.Event()

    async def export(org: str, name: str) -> None:
        async with places.hold(org):
            begun.append(name)
            await may_end.wait()

    mine = [asyncio.create_task(export(ORG, f"mine {number}")) for number in range(20)]
    await asyncio.sleep(0)
    other = asyncio.create_task(export(OTHER, "theirs"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert begun == ["mine 0", "mine 1", "theirs"]
    assert len(begun) == EXPORTS_OF_ORG_AT_ONCE_MAX + 1
    may_end.set()
    await asyncio.gather(*mine, other)
    assert len(begun) == 21


async def test_an_export_for_which_there_is_no_room_in_the_line_is_told_to_come_again() -> None:
    places = ExportPlaces()
    waiting = [
        asyncio.create_task(places.hold(ORG).__aenter__())
        for _ in range(EXPORTS_OF_ORG_AT_ONCE_MAX + WAITING_OF_ORG_MAX)
    ]
    await asyncio.sleep(0)
    with pytest.raises(Problem) as refused:
        await places.hold(ORG).__aenter__()
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "1")
    assert "exports of this organisation wait" in refused.value.body["detail"]
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_an_export_whose_client_has_left_the_line_gives_its_place_away() -> None:
    places = ExportPlaces()
    first, second = places.hold(ORG), places.hold(ORG)
    await first.__aenter__()
    await second.__aenter__()
    left = asyncio.create_task(places.hold(ORG).__aenter__())
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    for place in (first, second):
        await place.__aexit__(None, None, None)
    assert places.free == EXPORTS_AT_ONCE_MAX


async def test_an_agent_file_waits_for_the_texts_of_files_that_are_parsed() -> None:
    clock = ManualClock()

    async def unread() -> list[str]:
        return ["a.pdf"] if clock.seconds < 3 else []

    await wait_for_files(unread, clock)
    assert 3 <= clock.seconds < FILES_SECONDS_MAX


async def test_an_agent_file_without_the_text_of_a_file_is_refused_by_its_name() -> None:
    clock = ManualClock()

    async def unread() -> list[str]:
        return ["a.pdf", "b.docx"]

    with pytest.raises(Problem) as refused:
        await wait_for_files(unread, clock)
    assert (refused.value.status, clock.seconds) == (503, FILES_SECONDS_MAX)
    assert "(a.pdf, b.docx): try again in a moment" in refused.value.body["detail"]

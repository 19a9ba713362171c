"""Messages that the services gave up, as an operator sees them over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import nats
import pytest

from cli.exit_codes import ExitCode
from libs.contracts.bus_messages import DEFAULT_ORG
from tests.e2e.asking import SECONDS_MAX, unique
from tests.heeler_command import HeelerCommand
from tests.servers import HeelerInstance
from tests.waiting import wait_for

ADMIN = "/v1/admin/dead-letters"
NOBODY = "letter-11111111-1111-4111-8111-111111111111"
PARKED_SECONDS_MAX = 30.0

Park = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
async def web(heeler: HeelerInstance) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=heeler.base_url, timeout=SECONDS_MAX) as client:
        yield client


@pytest.fixture
async def park(heeler: HeelerInstance, web: httpx.AsyncClient) -> AsyncIterator[Park]:
    """Sends what no process can read; its letter. What is left of it is discarded."""
    bus = await nats.connect(heeler.nats_url)
    letters: list[str] = []

    async def send(service: str, topic: str, payload: bytes = b"{}") -> dict[str, Any]:
        message_id = unique("message")
        subject = f"{service}.command.{topic}.{DEFAULT_ORG}.thing-1"
        headers = {"ce-id": message_id, "correlation-id": f"for-{message_id}"}
        await bus.publish(subject, payload, headers=headers)

        async def found() -> dict[str, Any] | None:
            listed = (await web.get(ADMIN, params={"name": f"{service}.{topic}"})).json()
            return next((letter for letter in listed if letter["message_id"] == message_id), None)

        letter = await wait_for("it is parked", found, PARKED_SECONDS_MAX)
        letters.append(letter["id"])
        return letter

    yield send
    for letter in letters:
        await web.delete(f"{ADMIN}/{letter}")
    await bus.close()


async def test_a_message_that_nobody_can_read_is_listed_with_all_that_is_known_of_it(
    web: httpx.AsyncClient, park: Park
) -> None:
    letter = await park("agent", "agent.update", b'{"how": "slowly"}')

    assert letter["service"] == "agent"
    assert letter["kind"] == "command"
    assert letter["name"] == "agent.agent.update"
    assert letter["subject"] == f"agent.command.agent.update.{DEFAULT_ORG}.thing-1"
    assert (letter["payload"], letter["payload_text"]) == ({"how": "slowly"}, None)
    assert letter["context"]["message_id"] == letter["message_id"]
    assert letter["correlation_id"] == f"for-{letter['message_id']}"
    assert letter["attempts"] == 4
    assert letter["first_at"] < letter["last_at"] == letter["created_at"]
    assert letter["error_class"] == "pydantic_core._pydantic_core.ValidationError"
    assert "agent_id" in letter["error_text"]
    assert (letter["status"], letter["outcome"]) == ("parked", None)
    assert (await web.get(f"{ADMIN}/{letter['id']}")).json() == letter


async def test_what_is_no_json_is_kept_as_text(park: Park) -> None:
    letter = await park("memory", "block.update", b"{no json")

    assert (letter["payload"], letter["payload_text"]) == (None, "{no json")


async def test_letters_are_listed_by_service_name_kind_and_page(
    web: httpx.AsyncClient, park: Park
) -> None:
    first, second = (
        await park("agent", "agent.detach_block"),
        await park("agent", "agent.detach_block"),
    )
    other = await park("memory", "block.edit")

    async def listed(**params: Any) -> list[str]:
        return [letter["id"] for letter in (await web.get(ADMIN, params=params)).json()]

    agents = await listed(name="agent.agent.detach_block")
    assert agents == [second["id"], first["id"]]
    assert await listed(name="agent.agent.detach_block", order="asc") == agents[::-1]
    assert await listed(name="agent.agent.detach_block", limit=1) == agents[:1]
    assert await listed(name="agent.agent.detach_block", after=second["id"]) == agents[1:]
    assert other["id"] in await listed(service="memory", status="parked", kind="command")
    assert not {*agents} & {*await listed(service="memory")}
    assert await listed(name="agent.agent.detach_block", kind="run") == []
    assert (await web.get(ADMIN, params={"kind": "letter"})).status_code == 422
    assert (await web.get(ADMIN, params={"after": NOBODY})).status_code == 400


async def test_health_counts_the_letters_and_stays_well(web: httpx.AsyncClient, park: Park) -> None:
    async def counted() -> bool:
        health = await web.get("/v1/health")
        assert health.status_code == 200
        listed = (await web.get(ADMIN)).json()
        parked = [letter for letter in listed if letter["status"] != "replayed"]
        return bool(health.json()["dead_letters"] == len(parked))

    letter = await park("agent", "agent.delete")
    await wait_for("it is counted", counted)
    await web.delete(f"{ADMIN}/{letter['id']}")
    await wait_for("it is not counted any more", counted)


async def test_a_letter_that_is_replayed_in_vain_is_parked_again(
    web: httpx.AsyncClient, park: Park
) -> None:
    letter = await park("agent", "run.start")

    replayed = await web.post(f"{ADMIN}/{letter['id']}/replay")

    assert replayed.status_code == 200
    again = replayed.json()
    assert (again["id"], again["status"]) == (letter["id"], "parked")
    assert again["last_at"] > letter["last_at"]


async def test_a_discarded_letter_is_gone(web: httpx.AsyncClient, park: Park) -> None:
    letter = await park("memory", "block.delete")

    discarded = await web.delete(f"{ADMIN}/{letter['id']}")

    assert (discarded.status_code, discarded.json()) == (200, None)
    gone = {"detail": f"Dead letter with id '{letter['id']}' not found"}
    for answer in (
        await web.get(f"{ADMIN}/{letter['id']}"),
        await web.post(f"{ADMIN}/{letter['id']}/replay"),
        await web.delete(f"{ADMIN}/{letter['id']}"),
    ):
        assert (answer.status_code, answer.json()) == (404, gone)


async def test_what_is_no_id_of_a_letter_is_said_to_be_none(web: httpx.AsyncClient) -> None:
    answer = await web.get(f"{ADMIN}/agent-1")
    assert answer.status_code == 422
    assert "letter-{uuid4}" in json.dumps(answer.json())


async def test_the_operations_stand_in_the_api_document(web: httpx.AsyncClient) -> None:
    paths = (await web.get("/openapi.json")).json()["paths"]
    assert set(paths[ADMIN]) == {"get"}
    assert set(paths[ADMIN + "/{letter_id}"]) == {"get", "delete"}
    assert set(paths[ADMIN + "/{letter_id}/replay"]) == {"post"}
    names = {parameter["name"] for parameter in paths[ADMIN]["get"]["parameters"]}
    assert names == {"before", "after", "limit", "order", "service", "name", "kind", "status"}


async def test_an_operator_reads_replays_and_discards_a_letter_by_command(
    park: Park, heeler_command: HeelerCommand
) -> None:
    letter = await park("agent", "agent.update", b'{"how": "slowly"}')
    verbs = ("admin", "dead-letters")
    assert letter["id"] in heeler_command(*verbs, "list", "--service", "agent").out
    shown = heeler_command(*verbs, "show", letter["id"]).out
    assert '"how": "slowly"' in shown
    assert letter["error_text"].split()[0] in shown
    replayed = heeler_command.json(*verbs, "replay", letter["id"])
    assert (replayed["id"], replayed["status"]) == (letter["id"], "parked")
    heeler_command(*verbs, "discard", letter["id"], "--yes")
    assert heeler_command.run(*verbs, "show", letter["id"]).code == ExitCode.NOT_FOUND

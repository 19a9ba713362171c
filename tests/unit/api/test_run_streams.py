"""A client that leaves a stream leaves nothing behind, whenever it leaves."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from libs.bus.clock_and_ids import RandomIds
from services.api.adapters.conversations.run_follower import RunFollower, RunInbox
from services.api.http.server_sent_events import Showing, events_of
from tests.clock_and_ids import ManualClock
from tests.unit.api.followed_run import ORG, Scene
from tests.waiting import wait_for

GONE = {"type": "http.disconnect"}


class Client:
    """Takes so many events, then is gone; with none, even before the head of the answer."""

    def __init__(self, reads: int) -> None:
        self.reads = reads
        self.gone = asyncio.Event()
        self.heard: list[bytes] = []

    async def receive(self) -> Any:
        await self.gone.wait()
        return GONE

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            self.heard.append(message["body"])
        if len(self.heard) >= self.reads:
            self.gone.set()
            await asyncio.Event().wait()  # as for room to write, which never comes


def requested(scene: Scene) -> Any:
    api = SimpleNamespace(ids=RandomIds(), clock=ManualClock())
    state = SimpleNamespace(api=api, stopping=asyncio.Event(), ping_seconds=20.0)
    return SimpleNamespace(app=SimpleNamespace(state=state))


@pytest.mark.parametrize("reads", [0, 1, 3])
@pytest.mark.parametrize("in_inbox", [True, False])
async def test_who_leaves_a_stream_leaves_nothing_behind(reads: int, in_inbox: bool) -> None:
    scene = Scene()
    inbox = RunInbox(scene.bus, RandomIds())
    await inbox.open()
    run_id = inbox.new_run() if in_inbox else "run-1"
    subscribed = {name: len(delta) for name, delta in scene.bus.network.deltas.items()}
    follower = RunFollower(
        scene.rows,  # type: ignore[arg-type]
        scene.bus,
        ORG,
        run_id,
        last_sent=2,
        inbox=inbox if in_inbox else None,
    )
    await follower.__aenter__()
    scene.rows.record()
    client = Client(reads)
    stream = events_of(requested(scene), follower, Showing(numbered=True, look_first=True))
    answer = stream.to_asgi_response(app=None, request=None)

    answering = asyncio.create_task(answer({"type": "http"}, client.receive, client.send))
    await client.gone.wait()
    if not reads:
        answering.cancel()  # as when the server stops
    await asyncio.wait([answering], timeout=5)

    assert answering.done()
    assert len(client.heard) == reads
    assert not inbox.followers
    assert follower.subscription is None
    left = {name: len(delta) for name, delta in scene.bus.network.deltas.items() if delta}
    assert left == {name: count for name, count in subscribed.items() if count}
    await wait_for("the events are ended", lambda: stream.chunks.ag_frame is None)

"""A service is added by a folder and one declaration, to a home that was made without it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from urllib.request import urlopen

import nats

from deploy.embedded.api_health import read_health
from deploy.embedded.settings import CHECKOUT
from libs.contracts.nats_permissions import ADMIN, inbox_prefix
from libs.contracts.service_registry import names
from tests.integration.copied_project import project_with_counter
from tests.servers import HeelerInstance

# What somebody types who has only the copy: it finds the class by the declaration.
COUNT_TWICE = """
import asyncio, sys
from libs.bus.clock_and_ids import RandomIds
from libs.bus.nats_bus import NatsBus
from libs.contracts.bus_messages import COMMANDS, Context
from libs.contracts.all_messages import load_contracts

async def main(url):
    load_contracts()
    command = COMMANDS["counter.counter.count"](counter_id="counter-1")
    bus, ids = NatsBus(url, "heeler-test"), RandomIds()
    await bus.start()
    for _ in range(2):
        reply = await bus.request(command, Context(ids.new("count")), seconds_max=10)
    await bus.stop()
    print(reply.result["total"])

asyncio.run(main(sys.argv[1]))
"""


def test_an_existing_home_runs_a_service_that_was_added(tmp_path: Path) -> None:
    with HeelerInstance() as heeler:
        heeler.down()
        copy = heeler.checkout = project_with_counter(tmp_path)
        heeler.up()
        state = heeler.state()
        assert "counter" in state.parts

        url = state.urls["nats"]
        counted = subprocess.run(
            [heeler.python, "-c", COUNT_TWICE, url],
            cwd=copy,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert counted.stdout == "2\n"
        assert heeler.psql("select id, total from counter.counters") == [("counter-1", 2)]

        assert asyncio.run(micro_services(url, len(names()) + 1)) == {*names(), "counter"}
        heeler.wait_healthy()
        assert read_health("127.0.0.1", heeler.port).parts["counter"] == "ok"
        with urlopen(f"{heeler.base_url}/asyncapi.json") as answer:
            document = json.load(answer)
        assert {"Count", "Counted", "ReplayCounterDeadLetter"} <= (
            document["components"]["messages"].keys()
        )
        assert "EVENTS_COUNTER" in [stream["name"] for stream in document["x-nats"]["streams"]]
    own = ("services/counter", "libs/contracts/counter")
    changed = [path for path in differing(CHECKOUT, copy) if not path.startswith(own)]
    assert changed == ["libs/contracts/service_registry.py"]


async def micro_services(url: str, least: int) -> set[str]:
    """The services that `nats micro ls` shows, of which there are so many at least."""
    client = await nats.connect(url, inbox_prefix=inbox_prefix(ADMIN))
    try:
        inbox = client.new_inbox()
        heard = await client.subscribe(inbox)
        await client.publish("$SRV.PING", b"", reply=inbox)
        names: set[str] = set()
        try:
            while True:
                timeout = 30.0 if len(names) < least else 1.0
                names.add(json.loads((await heard.next_msg(timeout=timeout)).data)["name"])
        except TimeoutError:
            return names
    finally:
        await client.close()


def differing(ours: Path, theirs: Path) -> list[str]:
    """The Python files of the copy that are not ours, byte for byte."""
    paths = [path.relative_to(theirs) for path in theirs.glob("[!.]*/**/*.py")]
    return sorted(
        str(path)
        for path in paths
        if not (ours / path).exists() or (ours / path).read_bytes() != (theirs / path).read_bytes()
    )

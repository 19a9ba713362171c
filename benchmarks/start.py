"""python -m benchmarks.start: how long a warm `up` takes and what processor, and how long it takes
until a killed service answers again."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import statistics
import sys
import time

import nats

from benchmarks.cpu import tree, used_seconds
from deploy.embedded.settings import SERVICES
from libs.contracts.nats_permissions import ADMIN, inbox_prefix
from tests.servers import HeelerInstance

SETTLE_SECONDS = 4.0  # a process that lived for less is started again later
POLL_SECONDS = 0.01
UP_SECONDS_MAX, ANSWER_SECONDS_MAX = 3.0, 0.5


def warm_up(instance: HeelerInstance) -> tuple[float, float]:
    """The seconds that `up` takes after a `down`, and the processor seconds of everything."""
    instance.down()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    instance.up()
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, own + sum(map(used_seconds, tree(instance.pid("supervisor"))))


async def answers_after(instance: HeelerInstance, service: str) -> float:
    """The seconds from the death of a service's process until another answers in its place."""
    client = await nats.connect(instance.nats_url, inbox_prefix=inbox_prefix(ADMIN))
    killed = instance.pid(service)
    os.kill(killed, signal.SIGKILL)
    began = time.monotonic()
    inbox = client.new_inbox()
    signs = await client.subscribe(inbox)
    while True:
        await client.publish(f"$SRV.PING.{service}", b"", reply=inbox)
        try:
            sign = await signs.next_msg(timeout=POLL_SECONDS)
        except TimeoutError:
            continue
        if not sign.data:  # NATS says that nobody listens
            await asyncio.sleep(POLL_SECONDS)
            continue
        process = json.loads(sign.data)["metadata"]["process"]
        if int(process.rpartition(":")[2]) not in (0, killed):
            break
    seconds = time.monotonic() - began
    await client.close()
    return seconds


def verdict(seconds: float, most: float) -> str:
    """The seconds with what is wanted."""
    return f"{seconds:.2f} s, goal <= {most} s {'ok' if seconds <= most else 'MISSED'}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with HeelerInstance(env={"HEELER_PROCESSES": "each"}) as instance:
        rounds = [warm_up(instance) for _ in range(options.rounds)]
        for seconds, processor in rounds:
            print(f"up: {seconds:.2f} s, {processor:.2f} s of processor")
        median = statistics.median(seconds for seconds, _ in rounds)
        print(f"up, median: {verdict(median, UP_SECONDS_MAX)}")
        for service in SERVICES:
            time.sleep(SETTLE_SECONDS)
            seconds = asyncio.run(answers_after(instance, service))
            print(f"killed {service}: answers after {verdict(seconds, ANSWER_SECONDS_MAX)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The server under test: a Heeler of our own in a temporary home, or one that runs already."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psutil

from benchmarks.agents import RunFailed
from benchmarks.client import Origin
from benchmarks.cpu import CpuMeter, roots_of_home, roots_of_pids
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured, and how its CPU is read if it can be."""

    name: str
    origin: Origin
    meter: CpuMeter | None
    nats_url: str | None = None
    ours: bool = False


@asynccontextmanager
async def own_instance() -> AsyncIterator[Subject]:
    """A Heeler and a scripted model, each in processes of their own, gone afterwards."""
    async with ScriptedModelProcess() as model:
        given = {"OPENAI_API_BASE": model.base_url, "OPENAI_API_KEY": "sk-benchmark"}
        instance = HeelerInstance(env=given)
        try:
            await start(instance)
            yield Subject(
                name=f"own instance at {instance.base_url}",
                origin=Origin.of(instance.base_url),
                meter=CpuMeter(roots_of_home(instance.home)),
                nats_url=instance.nats_url,
                ours=True,
            )
        finally:
            await asyncio.to_thread(instance.close)


async def start(instance: HeelerInstance) -> None:
    """Return when it is healthy; raises RunFailed with what `up` said."""
    try:
        await asyncio.to_thread(instance.up)
    except AssertionError as problem:
        raise RunFailed(f"the own instance does not start: {problem}") from problem


@asynccontextmanager
async def running_server(base_url: str, pids: list[int]) -> AsyncIterator[Subject]:
    """A server that somebody else started; without pids its CPU is not counted."""
    try:
        origin = Origin.of(base_url, api_key=os.environ.get("LETTA_API_KEY", ""))
        meter = CpuMeter(roots_of_pids(pids)) if pids else None
    except (ValueError, psutil.Error) as problem:
        raise RunFailed(str(problem)) from problem
    yield Subject(name=base_url, origin=origin, meter=meter)

"""LARGE-FILES: a large upload, and files that are made to take all memory of whoever reads them. No
service grows by them, others are answered, and each file completes or ends with a reason."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import tempfile
import time
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import IO, Any

import httpx
import psutil

from tests.chaos.dose import Dose
from tests.chaos.folders import ended, http, new_folder
from tests.chaos.kills import percentile
from tests.chaos.oracle import Verdict
from tests.chaos.workload import Workload
from tests.chaos.world import World
from tests.hostile_files import MIB, deflate_pdf, nested_html, zip_bomb

GROWTH_BYTES_MAX = 100 * MIB  # of each service
OTHERS_SECONDS_MAX = 10.0
SAMPLED_SECONDS = 0.1
ASKED_SECONDS = 0.2
PDF_MIB_MIN = 80  # pypdf reads up to 75 MB of a page
BOMB_SHARE = 1.5  # of the upload's size
UPLOAD_SECONDS_MAX = 300.0


@dataclass(frozen=True, slots=True)
class Sent:
    """A file, and how it ends: with words in its reason, or (empty) completed."""

    name: str
    write: Callable[[IO[bytes]], None]
    words: str = ""


@dataclass(slots=True)
class Growth:
    """How much memory each process of a service had at first and at most."""

    world: World
    first: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)

    def sample(self) -> None:
        """Look at all of them. What reads a file is a program of its own, with its bounds."""
        for part in self.world.services:
            process = self.world.running(part)
            with contextlib.suppress(psutil.NoSuchProcess):
                rss = process.memory_info().rss if process else 0
                self.first.setdefault(part, rss)
                self.most[part] = max(self.most.get(part, 0), rss)

    def grown(self) -> dict[str, int]:
        """By how many bytes each grew at most."""
        return {part: most - self.first[part] for part, most in self.most.items()}


async def large_files(world: World, dose: Dose) -> Verdict:
    """`messages` is the size of the upload in MiB; bombs unpack to half as much again."""
    await world.restored()
    verdict = Verdict("LARGE-FILES")
    async with http(world) as client:
        folder = await new_folder(world, client)
        await finished(client, folder, Sent("first.txt", lambda file: put(file, b"Hello\n")))
        growth = Growth(world)
        growth.sample()
        async with sampled(growth), others(world, verdict):
            for sent in files(dose.messages):
                file = await finished(client, folder, sent)
                status, reason = file["processing_status"], file["error_message"] or ""
                print(f"  {sent.name}: {file['file_size'] / MIB:.1f} MiB, {status} {reason}")
                right = status == ("error" if sent.words else "completed") and sent.words in reason
                verdict.check(right, f"{sent.name} ended as {status}: {reason}")
                verdict.messages += 1
    for part, grown in growth.grown().items():
        verdict.figures[f"{part}_grew_mib"] = grown / MIB
        verdict.check(grown <= GROWTH_BYTES_MAX, f"{part} grew by {grown / MIB:.0f} MiB")
    return verdict


def files(mib: int) -> list[Sent]:
    """What is uploaded, one after the other."""
    bomb = round(BOMB_SHARE * mib) * MIB
    pdf = max(bomb, PDF_MIB_MIN * MIB)
    dense = "unpacks to far more than it is"
    return [
        Sent("large.txt", lambda file: text(file, mib), "10,000,000 characters"),
        Sent("large.docx", lambda file: document(file, mib)),
        Sent("page.pdf", lambda file: put(file, deflate_pdf(pdf)), dense),
        Sent("form.pdf", lambda file: put(file, deflate_pdf(pdf, in_form=True)), dense),
        Sent("bomb.docx", lambda file: put(file, zip_bomb("docx", bomb)), dense),
        Sent("bomb.xlsx", lambda file: put(file, zip_bomb("xlsx", bomb)), dense),
        Sent("bomb.pptx", lambda file: put(file, zip_bomb("pptx", bomb)), dense),
        Sent("nested.html", lambda file: put(file, nested_html(10_000)), "levels deep"),
    ]


def put(file: IO[bytes], data: bytes) -> None:
    """Write what is small."""
    file.write(data)


def text(file: IO[bytes], mib: int) -> None:
    """So much text."""
    line = b"So it goes on and on, and nobody reads it.\n"
    for _ in range(mib):
        file.write(line * (MIB // len(line)))


def document(file: IO[bytes], mib: int) -> None:
    """A document of one sentence, with pictures of so many bytes."""
    from docx import Document

    small = io.BytesIO()
    word = Document()
    word.add_paragraph("There are large pictures in this.")
    word.save(small)
    with zipfile.ZipFile(small) as parts, zipfile.ZipFile(file, "w") as large:
        for name in parts.namelist():
            large.writestr(name, parts.read(name))
        with large.open("word/media/noise.bin", "w", force_zip64=True) as picture:
            for _ in range(mib):
                picture.write(os.urandom(MIB))


async def finished(client: httpx.AsyncClient, folder: str, sent: Sent) -> dict[str, Any]:
    """Upload a file, and wait until it is processed."""
    found = await asyncio.to_thread(uploaded, str(client.base_url), folder, sent)
    return await ended(client, folder, found["id"])


def uploaded(base_url: str, folder: str, sent: Sent) -> dict[str, Any]:
    """Send a file as it is read from the disk."""
    with tempfile.TemporaryFile() as file:
        sent.write(file)
        file.seek(0)
        url = f"{base_url.rstrip('/')}/v1/folders/{folder}/upload"
        response = httpx.post(url, files={"file": (sent.name, file)}, timeout=UPLOAD_SECONDS_MAX)
    assert response.status_code == 200, f"{sent.name}: {response.status_code} {response.text}"
    found: dict[str, Any] = response.json()
    return found


@asynccontextmanager
async def sampled(growth: Growth) -> AsyncIterator[None]:
    """Look at all processes again and again."""

    async def look() -> None:
        while True:
            growth.sample()
            await asyncio.sleep(SAMPLED_SECONDS)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()


@asynccontextmanager
async def others(world: World, verdict: Verdict) -> AsyncIterator[None]:
    """Somebody else sends messages and reads meanwhile: each of that is answered in time."""
    workload = Workload(world.client(), world.new_name("OTHERS"))
    await workload.create_agents(1)
    agent, client = workload.agents[0], world.client()
    seconds: list[float] = []

    async def ask() -> None:
        for number in range(1_000_000):
            began = time.monotonic()
            path = f"/v1/agents/{agent}"
            body = {"input": "SAY:Still here."}
            if number % 2:
                answer = await client.send("POST", f"{path}/messages", body)
            else:
                answer = await client.send("GET", path)
            seconds.append(time.monotonic() - began)
            verdict.check(answer.ok, f"others were answered {answer.status}")
            await asyncio.sleep(ASKED_SECONDS)

    asking = asyncio.create_task(ask())
    try:
        yield
    finally:
        asking.cancel()
    verdict.check(not client.refusals, f"others met {client.refusals}")
    slowest = max(seconds, default=0.0)
    verdict.figures["others_requests"] = len(seconds)
    verdict.figures["others_p50_seconds"] = percentile(sorted(seconds), 0.5)
    verdict.figures["others_slowest_seconds"] = slowest
    verdict.check(slowest <= OTHERS_SECONDS_MAX, f"others waited for {slowest:.1f} s")

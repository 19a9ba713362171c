"""`watch`: the bus as it goes by, one line per message."""

from __future__ import annotations

import asyncio
import json
import signal
from datetime import UTC, datetime

import nats
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from rich.console import Console
from rich.text import Text

from deploy.embedded.command_name import launch_words
from deploy.embedded.settings import LaunchError
from libs.contracts.nats_permissions import WATCH, inbox_prefix

EVENTS = ("*.event.>",)
ALL = ("*.event.>", "*.command.>", "*.delta.>")
CORRELATION = "correlation-id"
COLOURS = {"event": "green", "command": "cyan", "delta": "bright_black"}
PAYLOAD_CHARACTERS_MAX = 160
CONNECT_SECONDS_MAX = 2
RECONNECT_SECONDS = 0.2
RECONNECTS_MAX = 50


async def watch(
    url: str, *, everything: bool, count: int | None, correlation_id: str | None = None
) -> int:
    """Print until Ctrl-C, or until `count` messages went by; of one request alone if its
    correlation id is given."""
    console = Console(highlight=False)
    done = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, done.set)
    seen = 0

    async def show(message: Msg) -> None:
        nonlocal seen
        other = correlation_id and (message.headers or {}).get(CORRELATION) != correlation_id
        if done.is_set() or other:
            return
        seen += 1
        console.print(line_of(message.subject, message.data, message.headers), soft_wrap=True)
        if count and seen >= count:
            done.set()

    try:
        client = await nats.connect(
            url,
            inbox_prefix=inbox_prefix(WATCH),
            connect_timeout=CONNECT_SECONDS_MAX,
            reconnect_time_wait=RECONNECT_SECONDS,
            max_reconnect_attempts=RECONNECTS_MAX,
            error_cb=_quiet,
        )
    except NatsError as error:
        raise LaunchError(f"NATS does not answer. Look at `{launch_words('status')}`.") from error
    for pattern in ALL if everything else EVENTS:
        await client.subscribe(pattern, cb=show)
    await client.flush()
    console.print(f"watching {' '.join(ALL if everything else EVENTS)}", style="dim")
    await done.wait()
    await client.close()
    return 0


async def _quiet(error: Exception) -> None:
    """A restart of NATS is no news here: the client connects again by itself."""


def line_of(subject: str, data: bytes, headers: dict[str, str] | None) -> Text:
    """Time, subject, payload: cut to one line that fits most screens."""
    kind = subject.split(".")[1] if subject.count(".") else ""
    return Text.assemble(
        (_clock(headers or {}), "dim"),
        "  ",
        (subject, COLOURS.get(kind, "white")),
        "  ",
        _short(data),
    )


def _clock(headers: dict[str, str]) -> str:
    try:
        moment = datetime.fromisoformat(headers["ce-time"]).astimezone(UTC)
    except (KeyError, ValueError):
        moment = datetime.now(UTC)
    return moment.strftime("%H:%M:%S.%f")[:-3]


def _short(data: bytes) -> str:
    try:
        text = json.dumps(json.loads(data), ensure_ascii=False)
    except ValueError:
        text = data.decode(errors="replace").replace("\n", " ")
    return text if len(text) <= PAYLOAD_CHARACTERS_MAX else text[: PAYLOAD_CHARACTERS_MAX - 1] + "…"

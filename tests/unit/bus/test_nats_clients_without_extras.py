"""A process that needs aiohttp or uvicorn for nothing else does not load them for the bus."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATER = """
import aiohttp, uvicorn
assert aiohttp.ClientSession
assert uvicorn.Server
"""
NATS = """
import sys
from libs.bus import nats_clients_without_extras
from nats.aio.client import Client
from faststream.nats import NatsBroker
"""
NOT_LOADED = 'assert not {"aiohttp", "uvicorn"} & {*sys.modules}'


@pytest.mark.parametrize(
    "program", [NATS + NOT_LOADED + LATER, LATER + NATS], ids=["nobody has it", "somebody has it"]
)
def test_extras_are_loaded_by_whoever_asks_for_them(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)

"""A process that needs aiohttp for nothing else does not load it for nats-py."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATER = """
import aiohttp
assert aiohttp.ClientSession
"""
NATS = """
import sys
from libs.bus import nats_without_websockets
from nats.aio.client import Client
"""
NOT_LOADED = 'assert "aiohttp" not in sys.modules'


@pytest.mark.parametrize(
    "program", [NATS + NOT_LOADED + LATER, LATER + NATS], ids=["nobody has it", "somebody has it"]
)
def test_aiohttp_is_loaded_by_whoever_asks_for_it(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)

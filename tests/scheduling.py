"""Which tests stay on one worker of pytest-xdist: of one file, or with one Heeler to share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parents[1]
NETWORK = "network_proves"  # the fixture of tests whose Heeler has two processes of each service
OF_THEIR_OWN = ("new_heeler(", "HeelerInstance(", "Composed(")


class SharedHeelers(LoadFileScheduling):
    """The files in the order of `testpaths`, which has the longest first: so no worker begins a
    long one when the others are done. The Heelers that many files share are started once."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return together(super()._split_scope(nodeid))


@cache
def together(file: str) -> str:
    """The name that a file has in common with those which share its Heeler."""
    folder = file.rpartition("/")[0]
    text = (ROOT / file).read_text() if folder in ("tests/chaos", "tests/e2e") else ""
    if folder == "tests/chaos" and NETWORK in text:
        return NETWORK
    if folder == "tests/e2e" and not any(own in text for own in OF_THEIR_OWN):
        return folder
    return file

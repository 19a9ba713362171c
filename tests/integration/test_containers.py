"""The store and the bus on the images that people deploy.

Everything else runs on them with `TEST_SERVERS=containers make test`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from deploy.embedded.settings import CHECKOUT
from tests.chosen import in_containers
from tests.engine import require_containers

SUITES = ("eventstore", "postgres_store", "bus", "nats_outage")
RUN_SECONDS_MAX = 900
pytestmark = pytest.mark.timeout(RUN_SECONDS_MAX + 60)


@pytest.fixture(autouse=True)
def _containers() -> None:
    if in_containers():
        pytest.skip("all suites run on containers now")
    require_containers()


def test_the_contracts_hold_on_the_images_that_people_deploy() -> None:
    files = [f"tests/contract/test_{suite}.py" for suite in SUITES]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "not memory", *files],
        cwd=CHECKOUT,
        env={**os.environ, "TEST_SERVERS": "containers"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert " passed" in done.stdout

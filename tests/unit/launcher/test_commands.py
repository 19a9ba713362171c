"""What the commands of the launcher load."""

from __future__ import annotations

import subprocess
import sys

from deploy.embedded.settings import CHECKOUT


def test_a_command_that_starts_nothing_loads_no_adapter_of_a_service() -> None:
    """`status` and `down` answer at once; what a service would refuse is for `up` to find out."""
    look = "import sys, deploy.embedded.__main__; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", look], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert not {"aiohttp", "psycopg", "services.agent", "services.tools"} & {*done.stdout.split()}

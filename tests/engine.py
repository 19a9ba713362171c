"""What tests with containers need of the machine, and what they say where it is missing."""

from __future__ import annotations

import subprocess

import pytest

from deploy.containers.engine import images, why_not
from deploy.containers.wheels import fill, is_fresh

PULL_SECONDS_MAX = 240
INDEX = "https://pypi.org/simple/uv/"
ASK_INDEX = f"import urllib.request as r; r.urlopen('{INDEX}', timeout=10).read(1)"


def require_containers() -> None:
    """Skip where no engine answers, or where it can have no images: not for us to repair."""
    if problem := why_not():
        pytest.skip(f"CONTAINERS ARE NOT TESTED: {problem}")
    for image in images().values():
        if _docker("image", "inspect", image).returncode == 0:
            continue
        pulled = _docker("pull", "--quiet", image)
        if pulled.returncode != 0:
            pytest.skip(f"CONTAINERS ARE NOT TESTED: no image {image} ({pulled.stderr.strip()})")


def provide_packages() -> None:
    """Download the packages of the images here if containers reach no package index."""
    python = images()["HEELER_PYTHON_IMAGE"]
    reached = _docker("run", "--rm", python, "python3", "-c", ASK_INDEX).returncode == 0
    if not reached and not is_fresh():
        fill()


def _docker(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PULL_SECONDS_MAX,
    )

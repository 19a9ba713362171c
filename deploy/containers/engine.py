"""The container engine as the `docker` command reaches it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from deploy.embedded.settings import CHECKOUT, LaunchError

IMAGES_FILE = CHECKOUT / "deploy" / "images.env"
ANSWER_SECONDS_MAX = 20
INSTEAD = "`make up` without MODE=compose needs no containers."


def why_not() -> str | None:
    """The reason why this machine cannot run containers, in a sentence; None if it can."""
    try:
        if problem := _failure("version", "--format", "{{.Server.Version}}"):
            return f"No Docker engine answers ({problem}). Start one, or be allowed to use it."
        if _failure("compose", "version"):
            return "Docker has no compose plugin: install docker-compose-plugin."
    except FileNotFoundError:
        return "There is no `docker` command here: install Docker with its compose plugin."
    except subprocess.TimeoutExpired:
        return f"The Docker engine does not answer within {ANSWER_SECONDS_MAX} s."
    return None


def require_engine() -> None:
    """Raise LaunchError where containers cannot run."""
    if problem := why_not():
        raise LaunchError(f"{problem} {INSTEAD}")


def docker(*words: str) -> str:
    """The output of a short `docker` command; raises LaunchError when it failed."""
    done = _run(*words)
    if done.returncode != 0:
        raise LaunchError(f"`docker {' '.join(words)}` failed: {done.stderr.strip()}")
    return done.stdout


def images(path: Path = IMAGES_FILE) -> dict[str, str]:
    """The public images by the variable that names them."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines if line)


def _failure(*words: str) -> str | None:
    done = _run(*words)
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return lines[-1] if done.returncode != 0 else None


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=ANSWER_SECONDS_MAX,
    )

"""Download the packages of the images here, for engines whose containers reach no package index.

The images are then built from deploy/wheels and from nothing else, until that folder is emptied.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from deploy.containers.engine import docker, images
from deploy.embedded.settings import CHECKOUT, LaunchError
from libs.contracts.service_registry import names

WHEELS = CHECKOUT / "deploy" / "wheels"
DOCKERFILE = CHECKOUT / "deploy" / "Dockerfile"
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
GLIBC_MINORS = range(5, 42)  # up to that of Debian trixie
DOWNLOAD_SECONDS_MAX = 900


def fill() -> int:
    """Download what uv.lock names, for the machine that the engine runs on; how many files."""
    clear()
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.txt"
        _export(wanted)
        _download("--require-hashes", "--requirement", str(wanted))
        _download(f"uv=={_uv_version()}")
    _stamp().write_text(_fingerprint())
    return len(list(WHEELS.glob("*.whl")))


def refresh() -> None:
    """Download again if they are in use and uv.lock has changed since."""
    if any(WHEELS.glob("*.whl")) and not is_fresh():
        print("deploy/wheels is older than uv.lock: downloading the packages again", flush=True)
        fill()


def is_fresh() -> bool:
    """Whether the folder holds what uv.lock names now."""
    return _stamp().exists() and _stamp().read_text() == _fingerprint()


def clear() -> None:
    """Empty the folder: the images are built from the package index again."""
    for path in (_stamp(), *WHEELS.glob("*.whl")):
        path.unlink(missing_ok=True)


def _stamp() -> Path:
    return WHEELS / "made-for"


def _fingerprint() -> str:
    parts = [(CHECKOUT / "uv.lock").read_text(), _uv_version(), _python_version()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _export(path: Path) -> None:
    words = ["export", "--quiet", "--frozen", "--no-default-groups"]
    words += [f"--package={service}" for service in names()]
    words += ["--no-emit-workspace", "--no-annotate", "--output-file", str(path)]
    _run([_uv(), *words])


def _download(*what: str) -> None:
    machine = docker("version", "--format", "{{.Server.Arch}}").strip()
    architecture = MACHINES.get(machine, machine)
    words = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(WHEELS)]
    words += ["--implementation=cp", f"--python-version={_python_version()}"]
    words += [f"--platform=manylinux_2_{minor}_{architecture}" for minor in GLIBC_MINORS]
    words += [f"--platform=manylinux2014_{architecture}", *what]
    _run([_uv(), "tool", "run", "pip", *words])


def _uv() -> str:
    """The uv that made .venv."""
    for candidate in ("uv", str(CHECKOUT / ".heeler-tools/bin/uv"), "~/.local/bin/uv"):
        if found := shutil.which(Path(candidate).expanduser()):
            return found
    raise LaunchError("There is no uv here to download packages with: run deploy/bootstrap.sh.")


def _python_version() -> str:
    """That of the image the services run in."""
    image = images()["HEELER_PYTHON_IMAGE"]
    if found := re.search(r":(\d+\.\d+)", image):
        return found[1]
    raise LaunchError(f"HEELER_PYTHON_IMAGE is {image}: its tag names no Python version.")


def _uv_version() -> str:
    found = re.search(r"^ARG UV_VERSION=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert found, "deploy/Dockerfile names the version of uv"
    return found[1]


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=DOWNLOAD_SECONDS_MAX,
    )
    if done.returncode != 0:
        raise LaunchError(f"`{command[0]} {command[1]}` failed:\n{done.stderr.strip()[-2000:]}")

"""Installs packages into a folder, by pip, without running anything of them: wheels only."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from services.tools.adapters.package_proxy import PackageProxy

INSTALL_SECONDS_MAX = 300.0
LOOK_SECONDS = 0.25
ENVIRONMENT_BYTES_MAX = 1 << 30
FILES_MAX = 100_000
FILE_BYTES_MAX = 512 << 20
CPU_SECONDS_MAX = 240
SAID_BYTES_MAX = 64 << 10
REASON_CHARS_MAX = 1_000
READABLE_BY_ALL = 'umask 022; exec "$@"'  # the users of sandboxes, too
PYPI = frozenset({"pypi.org", "files.pythonhosted.org"})
PASSED_ON = ("PIP_", "SSL_CERT_", "REQUESTS_CA_BUNDLE", "XDG_CONFIG_", "HOME")
TRANSIENT = ("connection", "proxyerror", "timed out", "timeout", "temporary failure", "ssl")


class InstallFailed(Exception):
    """Packages could not be installed; the words say why. What `passes` may work a moment later."""

    def __init__(self, words: str, *, passes: bool) -> None:
        super().__init__(words)
        self.words = words
        self.passes = passes


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """Where packages come from: an `https://` index, a folder of wheels, or, where it is empty,
    whatever pip is configured to ask. `hosts` may be asked besides."""

    address: str = ""
    hosts: frozenset[str] = frozenset()

    @property
    def is_folder(self) -> bool:
        """Whether nothing is asked over the network."""
        return self.address.startswith("/")

    def options(self) -> list[str]:
        """The options of pip for this index."""
        if self.is_folder:
            return ["--isolated", "--no-index", "--find-links", self.address]
        return ["--isolated", "--index-url", self.address] if self.address else []

    def reachable(self, environment: Mapping[str, str]) -> frozenset[str]:
        """The hosts that may be asked."""
        if self.address:
            host = urlsplit(self.address).hostname or ""
            own = PYPI if host in PYPI else frozenset({host})
            return self.hosts | own
        configured = f"{environment.get('PIP_INDEX_URL', '')} " + environment.get(
            "PIP_EXTRA_INDEX_URL", ""
        )
        return self.hosts | PYPI | {urlsplit(url).hostname or "" for url in configured.split()}


class PipInstaller:
    """Installs by a child process that reaches nothing but the index."""

    def __init__(self, index: PackageIndex, environment: Mapping[str, str] = os.environ) -> None:
        self.index = index
        self.environment = environment

    async def install(self, packages: Sequence[str], folder: str) -> None:
        """Install packages, as pip reads them, and all that they need, into a folder. Raises
        InstallFailed."""
        if self.index.is_folder:
            await self.run(packages, folder, [])
            return
        proxy = PackageProxy(self.index.reachable(self.environment))
        async with proxy.serve() as address:
            try:
                await self.run(packages, folder, ["--proxy", address])
            except InstallFailed as failed:
                if proxy.refused:
                    asked = ", ".join(sorted(proxy.refused)[:5])
                    words = f"{failed.words} ({asked} may not be asked: HEELER_PACKAGE_HOSTS)"
                    raise InstallFailed(words, passes=True) from None
                raise

    async def run(self, packages: Sequence[str], folder: str, options: list[str]) -> None:
        """Run pip to its end, within time and disk."""
        scratch = f"{folder}.tmp"
        os.makedirs(scratch, exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", READABLE_BY_ALL, "sh"),
            *(sys.executable, "-I", "-m", "pip", "install", "--quiet", "--no-input"),
            *("--only-binary", ":all:", "--no-cache-dir", "--disable-pip-version-check"),
            *("--retries", "1", "--timeout", "15", "--target", folder),
            *(*self.index.options(), *options, "--", *packages),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            cwd=scratch,
            env=self.given(scratch),
            start_new_session=True,
        )
        limit(process.pid)
        watching = asyncio.create_task(watch(process, folder, scratch))
        try:
            assert process.stderr is not None
            said = await process.stderr.read(SAID_BYTES_MAX)
            while await process.stderr.read(SAID_BYTES_MAX):
                pass
            code = await process.wait()
            why = watching.result() if watching.done() else ""
        finally:
            watching.cancel()
            kill(process)
        if code != 0:
            raise failure(said.decode("utf-8", "replace"), why)

    def given(self, scratch: str) -> dict[str, str]:
        """The environment of pip: how it is configured, and nothing of the server's secrets."""
        own = {
            name: value for name, value in self.environment.items() if name.startswith(PASSED_ON)
        }
        return {**own, "PATH": os.defpath, "LANG": "C.UTF-8", "TMPDIR": scratch}


def limit(pid: int) -> None:
    """Limit a child's resources besides time and disk, which are watched."""
    for kind, most in (
        (resource.RLIMIT_CPU, CPU_SECONDS_MAX),
        (resource.RLIMIT_FSIZE, FILE_BYTES_MAX),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(ProcessLookupError, PermissionError):
            resource.prlimit(pid, kind, (most, most))


async def watch(process: asyncio.subprocess.Process, *folders: str) -> str:
    """End a process that takes too long or writes too much; returns why."""
    loop = asyncio.get_running_loop()
    until = loop.time() + INSTALL_SECONDS_MAX
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        why = ""
        if loop.time() > until:
            why = f"it took longer than {INSTALL_SECONDS_MAX:g} seconds"
        held = [await asyncio.to_thread(size_of, folder) for folder in folders]
        if sum(size for _, size in held) > ENVIRONMENT_BYTES_MAX:
            why = f"they are larger than {ENVIRONMENT_BYTES_MAX >> 20} MiB"
        elif sum(files for files, _ in held) > FILES_MAX:
            why = f"they have more than {FILES_MAX} files"
        if why:
            kill(process)
            return why


def size_of(folder: str) -> tuple[int, int]:
    """The number of files in a folder, and their bytes; links are not followed."""
    files = size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(path, name)).st_size
                files += 1
    return files, size


def kill(process: asyncio.subprocess.Process) -> None:
    """End a process that may have ended, and what it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, 9)


def failure(said: str, why: str) -> InstallFailed:
    """The failure, in words that a person and a model can act on."""
    if why:
        return InstallFailed(
            f"The packages cannot be installed: {why}. Use smaller ones", passes=False
        )
    errors = [line.partition("ERROR:")[2].strip() for line in said.splitlines() if "ERROR:" in line]
    reason = " ".join(errors)[-REASON_CHARS_MAX:] or said.strip()[-REASON_CHARS_MAX:] or "no reason"
    passes = any(word in said.lower() for word in TRANSIENT)
    advice = (
        "The index could not be asked: call the tool again in a minute"
        if passes
        else "Correct names and versions in `pip_requirements`; only packages with wheels for"
        f" Python {sys.version_info.major}.{sys.version_info.minor} can be had: nothing is built"
    )
    return InstallFailed(f"The packages cannot be installed: {reason}. {advice}", passes=passes)

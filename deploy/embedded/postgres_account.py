"""The account that Postgres runs under where we are root, which Postgres refuses to be."""

from __future__ import annotations

import fcntl
import logging
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from deploy.embedded.service_environment import of_server
from deploy.embedded.settings import LaunchError

log = logging.getLogger("heeler.postgres")

NAME = "heeler-postgres"
NOBODY = "nobody"
TOOLS = "/usr/sbin:/sbin"  # not in everybody's path
LOCK = Path("/run/heeler-postgres-account.lock")  # a folder that only root writes to
TRIES_MAX = 20
TRY_AGAIN_SECONDS = 0.1
CREATE_SECONDS_MAX = 20


@dataclass(frozen=True)
class Account:
    """An unprivileged account."""

    uid: int
    gid: int


def unprivileged_account() -> Account | None:
    """The account of Postgres, made where it is missing; None when this process is not root: then
    Postgres runs under our own. What runs as `nobody` may look into everything else that does, so
    that is only for machines that have no way to make accounts."""
    if os.geteuid() != 0:
        return None
    with one_at_a_time():
        known = find(NAME) or create()
    if known is None:
        log.warning("no account %s could be made: Postgres runs as %s", NAME, NOBODY)
        known = find(NOBODY)
    if known is None:
        raise LaunchError(
            f"Postgres refuses to run as root and this machine has no account {NAME} or {NOBODY} "
            "to run it under. Start Heeler as an ordinary user."
        )
    return known


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Let others that start meanwhile wait: while one makes the account, it is there for some and
    not yet for others."""
    with ExitStack() as stack:
        with suppress(OSError):  # no such folder, or nobody may write to it: then go without
            fcntl.flock(stack.enter_context(LOCK.open("w")), fcntl.LOCK_EX)
        yield


def find(name: str) -> Account | None:
    """An account by its name."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(entry.pw_uid, entry.pw_gid)


def create() -> Account | None:
    """A new system account without a shell or a home; None where the machine cannot make one."""
    tool = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:{TOOLS}")
    if tool is None:
        return None
    words = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    for _ in range(TRIES_MAX):
        done = subprocess.run(
            [tool, *words, "--shell", "/usr/sbin/nologin", NAME],
            env=of_server(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=CREATE_SECONDS_MAX,
        )
        # Two that start at once: the second finds the file locked, or the account made.
        if made := find(NAME):
            return made
        if b"lock" not in done.stderr:
            break
        time.sleep(TRY_AGAIN_SECONDS)
    log.warning("useradd failed: %s", done.stderr.decode(errors="replace").strip())
    return None


def own(folder: Path, account: Account) -> None:
    """Give a folder and all that is in it to the account, if that is not so yet."""
    if folder.stat().st_uid == account.uid:
        return
    log.info("%s is given to the account Postgres runs under", folder)
    for parent, folders, files in os.walk(folder, topdown=False):
        for name in (*folders, *files):
            os.chown(Path(parent) / name, account.uid, account.gid, follow_symlinks=False)
    os.chown(folder, account.uid, account.gid)  # last: until then it is tried again

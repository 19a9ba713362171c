"""`heeler fleet`: which agents files describe together, what was applied of them, and the way
back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from typer import Argument, Option

from cli.commands import noun
from cli.exit_codes import CommandError, ExitCode
from cli.options import OPTIONS
from cli.output import columns, confirm, say, show_rows, write
from cli.server import server
from cli.verbs import LIST_ENTRIES, Limit, Yes

app = noun("Fleets: agents that files describe together.")

WRITTEN = """\
# Which fleet the agents of the files below this folder are. Commit it: the id is the same on all
# servers and machines.
id = "{key}"
name = "{name}"

# Where it lives: `heeler apply -f . -e prod`.
# [environments.prod]
# server = "https://agents.example.com"
# rules = "production"
# prune_max = 1
# variables = {{ TOKEN = "${{PROD_TOKEN}}" }}
"""

Chosen = Annotated[
    str | None,
    Argument(
        metavar="FLEET", help="Its name or id; without it the one of the files in this folder."
    ),
]


@app.command()
def init(
    folder: Annotated[Path, Argument(help="The folder of its files.")] = Path(),
    name: Annotated[
        str | None, Option(help="What it is called; without it, as the folder.")
    ] = None,
) -> None:
    """Write heeler-fleet.toml, which says that the files below the folder belong together."""
    from cli.fleet.settings import FILE

    file = folder / FILE
    if file.exists():
        raise CommandError(f"{file} is there already", ExitCode.REFUSED)
    if not folder.is_dir():
        raise CommandError(f"There is no folder {folder}", ExitCode.NOT_FOUND)
    called = (name or folder.resolve().name or "fleet").replace('"', "").replace("\\", "")
    file.write_text(WRITTEN.format(key=f"fleet-{uuid4()}", name=called), encoding="utf-8")
    write(str(file))
    say("Commit it. Then: heeler diff -f .")


@app.command("list")
def list_(limit: Limit = LIST_ENTRIES) -> None:
    """List the fleets of the server."""
    shown = columns("name", "id", made_from="origin", being_applied_by=_applying)
    show_rows(server().pages("/v1/fleets", limit), shown)


@app.command()
def status(fleet: Chosen = None) -> None:
    """Show what a fleet owns, and what is gone of it."""
    found = _found(fleet)
    if running := _applying(found):
        say(f"Being applied by {running}")
    rows = []
    after = None
    while page := server().get(f"/v1/fleets/{found['id']}/members", after=after, order="asc"):
        rows += page
        after = page[-1]["member_id"]
    rows.sort(key=lambda row: (row["kind"], row["key"]))
    show_rows(rows, columns("kind", "key", "name", "id", applied="applied_at"))


@app.command()
def history(fleet: Chosen = None, limit: Limit = 20) -> None:
    """List what was applied of a fleet, by whom and when, the newest first."""
    found = _found(fleet)
    shown = columns(apply="id", when="created_at", who="by", what=_counts)
    applies = server().pages(f"/v1/fleets/{found['id']}/applies", limit)
    show_rows(applies, shown | columns("status", "undoes"))


@app.command()
def undo(
    apply: Annotated[str, Argument(help="The id of an apply (heeler fleet history).")],
    fleet: Annotated[
        str | None, Option(help="Its fleet; without it the one of the files in this folder.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Take an apply back: what it made goes, what it deleted comes back, what it changed is as
    before, unless somebody has changed it since."""
    from cli.fleet.command import end, show_outcomes
    from cli.fleet.run import FleetServer
    from cli.fleet.server_transport import Transport
    from cli.fleet.view import plan_lines

    found = _found(fleet)
    where = FleetServer(Transport(server()), found["id"])
    plan = where.plan({"undo": apply})
    if not OPTIONS.json:
        for line in plan_lines(plan):
            write(line)
    if plan.differs:
        confirm(f"Do that to the fleet '{found['name']}' on {where.where}?", yes=yes)
    outcomes = where.apply_all(plan)
    show_outcomes(found["name"], plan, outcomes)
    end(plan, outcomes)


@app.command()
def forget(fleet: Chosen = None, yes: Yes = False) -> None:
    """Forget a fleet and what was applied of it. Its agents stay, and are nobody's."""
    found = _found(fleet)
    confirm(f"Forget the fleet '{found['name']}' ({found['id']})? Its agents stay.", yes=yes)
    server().delete(f"/v1/fleets/{found['id']}")
    say(f"The fleet '{found['name']}' is forgotten")


def _found(fleet: str | None) -> Any:
    """The document of the fleet that is meant. Raises CommandError."""
    from cli.fleet.files import fleet_of

    key = fleet
    if fleet is None:
        key = fleet_of([Path()]).fleet.key
    fleets = [
        each
        for each in server().pages("/v1/fleets")
        if key in (each["id"], each["key"]) or fleet == each["name"]
    ]
    if len(fleets) == 1:
        return fleets[0]
    if fleets:
        ids = ", ".join(each["id"] for each in fleets)
        raise CommandError(f"Several fleets are called '{fleet}': say which by its id ({ids})")
    what = f"'{fleet}'" if fleet else "of the files in this folder"
    raise CommandError(
        f"There is no fleet {what} on the server: `heeler fleet list` shows all", ExitCode.NOT_FOUND
    )


def _applying(fleet: Any) -> str:
    running = fleet.get("applying")
    if not running:
        return ""
    return f"{running['by']} since {running['since']} ({running['done']} of {running['units']})"


def _counts(apply: Any) -> str:
    return ", ".join(f"{name} {count}" for name, count in apply["counts"].items())

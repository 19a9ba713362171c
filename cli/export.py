"""`heeler export`: agents of a server as files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from cli.commands import Commands
from cli.exit_codes import CommandError, ExitCode
from cli.options import OPTIONS
from cli.output import progress, say, show_lines, write

app = Commands()


class Form(StrEnum):
    """The form that an agent is written in."""

    toml = "toml"
    letta = "letta"
    heeler = "heeler"


@app.command()
def export(
    agents: Annotated[list[str], Argument(help="Names or ids.")],
    form: Annotated[
        Form,
        Option(
            "--output",
            "-o",
            help="toml: a file that `heeler apply` reads, with the sources of tools beside it;"
            " letta: an agent file with messages; heeler: everything there is of it.",
        ),
    ] = Form.toml,
    to: Annotated[
        Path | None, Option("--to", help="The folder to write to; without it the working folder.")
    ] = None,
) -> None:
    """Write agents to files. A TOML file that is applied again changes nothing.

    Without --to, one agent without files beside it is written to stdout as TOML.
    """
    from cli.names import AGENT, id_of
    from cli.server import server

    asked = server()
    ids = [id_of(asked, AGENT, agent) for agent in agents]
    if form is Form.toml:
        _export_toml(ids, to)
        return
    folder = to or Path()
    folder.mkdir(parents=True, exist_ok=True)
    with progress("Exporting", len(ids)) as advance:
        written = []
        for number, agent_id in enumerate(ids, start=1):
            written.append(_download(agent_id, form, folder))
            advance(number)
    _tell(written)


def _export_toml(ids: list[str], to: Path | None) -> None:
    from cli.fleet.export import ExportedFiles, Exporter
    from cli.fleet.server_transport import Transport
    from cli.server import server

    files, exporter = ExportedFiles(), Exporter(Transport(server()))
    with progress("Exporting", len(ids)) as advance:
        for number, agent_id in enumerate(ids, start=1):
            exporter.export(agent_id, files)
            advance(number)
    if to is None and len(files.texts) == 1 and not OPTIONS.json:
        write(next(iter(files.texts.values())), end="")
        return
    folder = to or Path()
    files.write_to(folder)
    _tell([folder / path for path in files.texts])


def _download(agent_id: str, form: Form, folder: Path) -> Path:
    """Write an agent as the server writes it; the file that it is in."""
    from cli import agent_files
    from cli.fleet.export import slug
    from cli.server import server

    name = slug(server().get(f"/v1/agents/{agent_id}")["name"])
    file = folder / f"{name}{'.af' if form is Form.letta else '.heeler.gz'}"
    if file.exists():
        raise CommandError(f"{file} is there: write to another folder", ExitCode.REFUSED)
    agent_files.export(agent_id, str(file), form=form.value)
    return file


def _tell(written: list[Path]) -> None:
    paths = [str(path) for path in written]
    show_lines(paths, paths)
    if not OPTIONS.json:
        say(f"{len(written)} files written.")

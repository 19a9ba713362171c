"""One migration: passes over the database of a Letta server, each imported by this server."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from deploy.letta_migration.agents import embedding_config
from deploy.letta_migration.comparison import Comparison
from deploy.letta_migration.definitions import OF_ORG
from deploy.letta_migration.lines import Pass, encode_pass
from deploy.letta_migration.passes import Passes
from deploy.letta_migration.progress import Progress
from deploy.letta_migration.providers import providers
from deploy.letta_migration.report import Report
from deploy.letta_migration.secrets import Opener
from deploy.letta_migration.source import LettaDatabase, organisation_of
from deploy.letta_migration.target import Gone, Missing, Target, TargetProblem, embedding_models
from deploy.letta_migration.target_versions import AskedVersions, TargetVersions, UnchangedVersions
from libs.encryption.sealer import Sealer

IMPORT = "/v1/agents/import"
POLL_SECONDS = 0.5
ENDED = ("completed", "failed", "cancelled")

type Tell = Callable[[str], None]
type Advance = Callable[[int, int], None]  # how many lines were imported, of how many


@dataclass(frozen=True, slots=True)
class Migration:
    """Source and target. In the last pass, runs that have not ended are ended."""

    source: str
    organisation: str | None
    folder: Path
    target: Target
    opener: Opener
    sealer: Sealer | None
    is_last: bool
    tell: Tell
    advance: Advance = lambda done, total: None

    def passes(self, org: str) -> Passes:
        """Where the migration of an organisation is."""
        parts = urlsplit(self.source)
        named = f"{parts.hostname}:{parts.port}{parts.path}"
        return Passes.of(self.folder, f"{named} {self.target.url}", org)

    def run(self) -> Report:
        """Take over what is new since the last pass. Raises UnknownDatabase, TargetProblem."""
        with LettaDatabase(self.source) as database:
            org = organisation_of(database, self.organisation)
            passes, report = self.passes(org), Report()
            earlier = passes.report() if passes.is_under_way else None
            if earlier is not None:
                self.tell("Go on with the pass that was under way")
                try:
                    self.send(passes, report)
                except Gone:
                    self.tell("The server has forgotten it with its agents: it is made again")
                    passes.give_up()
                    earlier = None
            progress = passes.draft()
            self.read(database, org, progress, report, passes, AskedVersions(self.target))
            self.send(passes, report)
            if earlier is not None:
                report.add_earlier(earlier)
            self.embed_again(database, org, report)
            self.tell("Compare both sides")
            Comparison(database, org, self.target, report).run()
        return report

    def read(
        self,
        database: LettaDatabase,
        org: str,
        progress: Progress,
        report: Report,
        passes: Passes,
        target_versions: TargetVersions,
    ) -> None:
        """Write the file of a pass."""
        self.tell(f"Read the database of a Letta server {database.release}")
        passed = self.make_pass(database, org, progress, report, target_versions)
        lines = encode_pass(passed, f"letta {database.release}", datetime.now(UTC))
        passes.write(progress, report, lines)
        report.providers.extend(providers(database, org))

    def make_pass(
        self,
        database: LettaDatabase,
        org: str,
        progress: Progress,
        report: Report,
        target_versions: TargetVersions,
    ) -> Pass:
        """A pass over a database."""
        asked = isinstance(target_versions, AskedVersions)
        return Pass(
            database,
            org,
            progress,
            report,
            self.opener,
            self.sealer,
            target_versions,
            embedding_models(self.target) if asked else None,
            is_last=self.is_last,
        )

    def dry_run(self) -> Report:
        """Read everything that is new, and send nothing."""
        report = Report()
        with LettaDatabase(self.source) as database:
            org = organisation_of(database, self.organisation)
            progress = self.passes(org).copy()
            passed = self.make_pass(database, org, progress, report, UnchangedVersions())
            for _ in encode_pass(passed, f"letta {database.release}", datetime.now(UTC)):
                pass
            report.providers.extend(providers(database, org))
        return report

    def write(self, file: Path) -> Report:
        """Write everything into a file, as if nothing had been taken over before."""
        report = Report()
        passes = Passes(file.parent)
        with LettaDatabase(self.source) as database:
            org = organisation_of(database, self.organisation)
            progress = passes.draft()
            self.read(database, org, progress, report, passes, UnchangedVersions())
        passes.lines.replace(file)
        passes.give_up()
        return report

    def embed_again(self, database: LettaDatabase, org: str, report: Report) -> None:
        """Have the archives embedded again whose model is not known here: in the background."""
        known = embedding_models(self.target)
        for row in database.rows("archives", OF_ORG, [org]):
            config = embedding_config(row.get("embedding_config"))
            if config is None or config.handle in known:
                continue
            at = f"/v1/archives/{row['id']}"
            try:
                here = self.target.get(at)
            except Missing:
                continue  # it was deleted here, or refused
            if (here["embedding_config"] or {}).get("handle") == config.handle:
                self.target.put(f"{at}/embedding", {})
                report.mend("An archive whose model is not known here is embedded again")

    def send(self, passes: Passes, report: Report) -> None:
        """Have a pass imported, and wait until it is. Raises TargetProblem."""
        if passes.is_empty:
            self.tell("Nothing is new")
            passes.end()
            return
        self.tell(f"Send {passes.lines.stat().st_size} bytes to {self.target.url}")
        # Said in the address: the form of an import that is under way already is not read.
        row = self.target.send(
            f"{IMPORT}?background=true",
            passes.lines,
            key=f"letta-{passes.digest()}",
            conflicts="continue",
            accept_tools="true",
        )
        while row["status"] not in ENDED:
            time.sleep(POLL_SECONDS)
            row = self.target.get(f"/v1/imports/{row['id']}")
            self.advance(row["lines_done"] or 0, row["lines"] or 0)
        if row["status"] != "completed":
            passes.give_up()
            errors = "; ".join(f"{error['entry']}: {error['message']}" for error in row["errors"])
            raise TargetProblem(f"The import {row['id']} has {row['status']}: {errors}")
        for entry in row.get("left_out") or ():
            report.leave(
                "definitions", entry["entry"], f"this server refuses it: {entry['message']}"
            )
        passes.end()

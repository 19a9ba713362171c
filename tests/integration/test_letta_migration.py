"""The database of a genuine Letta server, read and turned into histories: without a server."""

from __future__ import annotations

import gzip
import json
import os
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from deploy.letta_migration.comparison import Comparison
from deploy.letta_migration.lines import Pass, encode_pass
from deploy.letta_migration.migration import Migration
from deploy.letta_migration.passes import Passes
from deploy.letta_migration.progress import Progress
from deploy.letta_migration.report import Report
from deploy.letta_migration.secrets import Opener, derived_key
from deploy.letta_migration.source import LettaDatabase, organisation_of
from deploy.letta_migration.target import Gone, Missing, Target
from deploy.letta_migration.target_versions import AskedVersions, TargetVersions, UnchangedVersions
from deploy.letta_migration.versions import REVISIONS, UnknownDatabase
from libs.contracts.agent.conversations import Message, main_conversation
from libs.contracts.agent.stored_to_letta_messages import served_messages
from libs.contracts.agent_file import LINE, Definition, Footer, HistoryPart
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import EVENTS
from libs.encryption.sealer import Sealer
from libs.encryption.sealing_keys import new_key
from libs.eventstore.event_decoding import event_of
from libs.eventstore.ports import StoredEvent
from services.agent.domain.agents.agent import Agent
from services.agent.domain.conversations.conversation import Conversation
from services.memory.domain.block import Block
from services.memory.domain.passage import Passage
from tests.letta_database import RECORDED, load
from tests.servers import PostgresServer

DESK = "agent-167b2b4b-a0b8-47b1-85d7-4a62e5c2b23c"
CASHIER = "agent-3fde84cf-7d54-4bde-8b40-7f5a3298944b"
KINDS: dict[str, type[Aggregate[Any]]] = {
    "agent.created": Agent,
    "message.appended": Conversation,
    "conversation.created": Conversation,
    "block.created": Block,
    "passage.created": Passage,
}
SEALER = Sealer([new_key()])


@pytest.fixture(scope="module")
def template(postgres_server: PostgresServer) -> str:
    """The name of a database that was loaded once."""
    load(postgres_server.create_database("letta_template"))
    return "letta_template"


@pytest.fixture
def url(postgres_server: PostgresServer, template: str) -> str:
    """A copy of the database, for one test."""
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("drop database if exists letta with (force)")
        connection.execute(f"create database letta template {template}")
    return postgres_server.server.url("letta")


class Moved:
    """What the passes over a database have made, folded as the services fold it."""

    def __init__(self, url: str, opener: Opener | None = None) -> None:
        self.url = url
        self.opener = opener or Opener(None)
        self.progress = Progress()
        self.report = Report()
        self.target_versions: TargetVersions = UnchangedVersions()
        self.aggregates: dict[str, Aggregate[Any]] = {}
        self.definitions: dict[str, Definition] = {}
        self.events: list[tuple[str, datetime, dict[str, Any]]] = []

    def take(self, *, is_last: bool = True) -> int:
        """Make a pass; returns how many lines it has besides header and footer."""
        self.report = Report()
        with LettaDatabase(self.url) as database:
            passed = Pass(
                database,
                organisation_of(database, None),
                self.progress,
                self.report,
                self.opener,
                SEALER,
                self.target_versions,
                is_last=is_last,
            )
            lines = [
                LINE.validate_json(line) for line in encode_pass(passed, "test", datetime.now(UTC))
            ]
        assert isinstance(lines[-1], Footer)
        for line in lines:
            if isinstance(line, HistoryPart):
                self.fold(line)
            elif isinstance(line, Definition):
                self.definitions[line.id] = line
        return len(lines) - 2

    def fold(self, part: HistoryPart) -> None:
        """Let the events of a part happen."""
        history = part.history
        first = history.events[0].topic
        if history.aggregate_id not in self.aggregates:
            self.aggregates[history.aggregate_id] = KINDS[first].blank(history.aggregate_id)
        aggregate = self.aggregates[history.aggregate_id]
        assert aggregate.version + 1 == history.first_version
        for event in history.events:
            stored = StoredEvent(
                aggregate.id, aggregate.version + 1, event.topic, event.schema_version,
                "org", aggregate.id, "", {}, event.occurred_at,
            )  # fmt: skip
            aggregate.append_past(event_of(part.service, stored, event.payload))
            self.events.append((event.topic, event.occurred_at, event.payload))

    def conversation(self, name: str) -> Conversation:
        """A conversation as it is."""
        found = self.aggregates[name]
        assert isinstance(found, Conversation)
        return found

    def messages(self, agent_id: str) -> list[dict[str, Any]]:
        """The messages of an agent as clients are served them."""
        appended = [
            (at, payload)
            for topic, at, payload in self.events
            if topic == "message.appended" and payload["agent_id"] == agent_id
        ]
        return [
            dict(served)
            for _, payload in sorted(appended, key=lambda each: each[0])
            for served in served_messages(
                Message.model_validate(payload["message"]),
                run_id=payload["run_id"],
                step_id=payload["step_id"],
            )
        ]


@pytest.fixture(scope="module")
def moved(postgres_server: PostgresServer, template: str) -> Moved:
    """The database as it was recorded, after one pass."""
    moved = Moved(postgres_server.server.url(template))
    moved.take()
    return moved


def expected(name: str) -> Any:
    """What the old server's API answered."""
    return json.loads((RECORDED / "expected" / f"{name}.json").read_text())


def test_every_message_is_what_the_old_server_answered(moved: Moved) -> None:
    for agent in expected("agents"):
        served, told = moved.messages(agent["id"]), expected(agent["id"])["messages"]
        for message in [*served, *told]:
            if message["message_type"] == "approval_request_message":
                message.pop("otid")  # ours tells the parts of a message apart
        assert served == told


def test_models_are_shown_what_the_old_server_would_have_shown_them(moved: Moved) -> None:
    for agent in expected("agents"):
        conversation = moved.conversation(main_conversation(agent["id"]))
        assert [message.id for message in conversation.state.window] == agent["message_ids"]
        assert not conversation.state.unfinished_runs


def test_an_approval_that_was_asked_for_can_still_be_given(moved: Moved) -> None:
    approval = moved.conversation(main_conversation(CASHIER)).state.approval
    assert approval is not None
    assert approval.waiting == ["call_fake0000000000000046"]
    assert approval.message_id == "message-ed9c5ca4-f8ca-4377-bee6-061ec2cf99a1"


def test_agents_are_what_they_were(moved: Moved) -> None:
    for agent in expected("agents"):
        state = moved.aggregates[agent["id"]].state
        config = state.design.config
        assert config.llm_config.model_dump(mode="json") == agent["llm_config"]
        assert state.design.block_ids == [block["id"] for block in agent["blocks"]]
        assert state.design.tools == [tool["name"] for tool in agent["tools"]]
        assert state.design.tags == agent["tags"]
        assert list(state.design.secrets) == [secret["key"] for secret in agent["secrets"]]
    secrets = moved.aggregates[DESK].state.design.secrets
    assert SEALER.open(secrets["API_KEY"]) == "sk-agent-canary"


def test_nothing_is_sent_in_plain_text_that_is_secret(moved: Moved) -> None:
    sent = json.dumps([definition.model_dump() for definition in moved.definitions.values()])
    sent += json.dumps([payload for _, _, payload in moved.events])
    assert "canary" not in sent


def test_a_second_pass_has_nothing_to_take_over(url: str) -> None:
    moved = Moved(url)
    assert moved.take() > 0
    assert moved.report.taken["messages"] == 87
    assert moved.take() == 0
    assert not +moved.report.taken


def test_a_message_that_was_not_visible_yet_comes_with_the_next_pass(url: str) -> None:
    moved = Moved(url)
    with psycopg.connect(url) as old:
        row = old.execute(
            "update messages set sequence_id = sequence_id + 1000000 where id ="
            " (select id from messages where agent_id = %s order by sequence_id desc limit 1)"
            " returning sequence_id",
            [DESK],
        ).fetchone()
        assert row is not None
    moved.take()
    with psycopg.connect(url) as old:
        old.execute(
            "insert into messages (id, agent_id, role, content, tool_calls, organization_id,"
            " created_at, is_deleted, sequence_id)"
            " select 'message-00000000-0000-4000-8000-000000000001', id, 'user',"
            ' \'[{"type": "text", "text": "Late"}]\', \'[]\', organization_id, now(), false, %s'
            " from agents where id = %s",
            [row[0] - 1, DESK],
        )
    assert moved.take() == 1
    assert moved.messages(DESK)[-1]["content"] == "Late"
    assert moved.take() == 0


def test_a_later_pass_takes_over_what_is_new_alone(url: str) -> None:
    moved = Moved(url)
    moved.take(is_last=False)
    before = len(moved.events)
    window = [message.id for message in moved.conversation(main_conversation(DESK)).state.window]
    with psycopg.connect(url) as old:
        old.execute(
            "insert into messages (id, agent_id, role, content, tool_calls, organization_id,"
            " created_at, is_deleted) select 'message-00000000-0000-4000-8000-000000000001',"
            ' agent_id, \'user\', \'[{"type": "text", "text": "New"}]\', \'[]\', organization_id,'
            " now(), false from messages where agent_id = %s limit 1",
            [DESK],
        )
        shown = [window[0], *window[3:], "message-00000000-0000-4000-8000-000000000001"]
        old.execute("update agents set message_ids = %s where id = %s", [json.dumps(shown), DESK])
        old.execute(
            "update block set value = 'Name: Eva', updated_at = now()"
            " where id = 'block-140abd6e-f74e-4435-975b-9355a172770b'"
        )
    assert moved.take(is_last=False) == 2
    assert next(topic for topic, _, _ in moved.events[before:]) == "block.changed"
    assert len(moved.events) <= before + 3
    block = moved.aggregates["block-140abd6e-f74e-4435-975b-9355a172770b"]
    assert block.state.block.value == "Name: Eva"
    conversation = moved.conversation(main_conversation(DESK))
    assert [message.id for message in conversation.state.window] == shown
    assert conversation.state.window[-1].content == "New"


def test_models_are_shown_again_what_the_old_server_shows_again(url: str) -> None:
    moved = Moved(url)
    name = main_conversation(DESK)
    with psycopg.connect(url) as old:
        row = old.execute("select message_ids from agents where id = %s", [DESK]).fetchone()
        assert row is not None
        whole: list[str] = row[0]
        swapped = [whole[0], whole[-1], *whole[1:-1]]
        for shown in ([whole[0], *whole[9:]], whole, swapped):
            old.execute(
                "update agents set message_ids = %s where id = %s", [json.dumps(shown), DESK]
            )
            old.commit()
            moved.take()
            assert [message.id for message in moved.conversation(name).state.window] == shown


class ChangedHere:
    """Everything went on here since the last pass."""

    def version(self, aggregate_id: str, agent_id: str, known: int) -> int:
        return known + 1

    def block_version(self, block_id: str) -> int:
        return 7


def test_what_went_on_here_is_left_alone_and_said(url: str) -> None:
    moved = Moved(url)
    moved.take()
    with psycopg.connect(url) as old:
        old.execute(
            "update block set value = 'Name: Eva', updated_at = now() where label = 'human'"
        )
        old.execute("update agents set name = 'Another', message_ids = '[]' where id = %s", [DESK])
    moved.target_versions = ChangedHere()
    assert moved.take() == 0
    left = {table: names for (table, _), names in moved.report.left.items()}
    assert left["agents"] == [DESK]
    assert main_conversation(DESK) in left["conversations"]
    assert len(left["block"]) == 5
    moved.target_versions = UnchangedVersions()
    assert moved.take() > 0


def test_what_no_server_here_could_keep_comes_without_it_or_stays_behind(url: str) -> None:
    content = r'[{"type": "text", "text": "before\u0000after \ud800"}]'
    huge = json.dumps([{"type": "text", "text": "x" * (4 << 20)}])
    with psycopg.connect(url) as old:
        first, second = old.execute(
            "select id from messages where agent_id = %s and role = 'user'"
            " order by sequence_id limit 2",
            [DESK],
        ).fetchall()
        old.execute("update messages set content = %s where id = %s", [content, first[0]])
        old.execute("update messages set content = %s where id = %s", [huge, second[0]])
        old.execute(
            "update block set value = repeat('y', 9000), label = repeat('z', 300)"
            " where label = 'policy'"
        )
    moved = Moved(url)
    moved.take()
    messages = {message["id"]: message for message in moved.messages(DESK)}
    assert messages[first[0]]["content"] == "beforeafter "
    assert "too large" in str(messages[second[0]]["content"])
    assert [names for (table, _), names in moved.report.left.items() if table == "messages"]
    block = moved.aggregates["block-2446cfe2-cca9-4089-81cc-fdb4deb904b1"].state.block
    assert (len(block.label), block.limit) == (200, 9000)


def test_calls_without_their_results_are_counted(url: str) -> None:
    with psycopg.connect(url) as old:
        old.execute(
            "delete from messages where tool_call_id = 'toolu_fake0000000000000043'"
            " and role = 'tool'"
        )
    moved = Moved(url)
    moved.take()
    assert [count for what, count in moved.report.mended.items() if "result" in what] == [1]


def test_runs_that_have_not_ended_wait_for_the_last_pass(url: str) -> None:
    moved = Moved(url)
    moved.take(is_last=False)
    accepted = {payload["run_id"] for topic, _, payload in moved.events if topic == "run.accepted"}
    moved.take(is_last=True)
    later = [payload["run_id"] for topic, _, payload in moved.events if topic == "run.accepted"]
    assert len(accepted) == 28
    assert len(later) == len({*later}) == 32


def encrypt(value: str, key: str) -> str:
    """As the old server encrypts a value."""
    salt, nonce = os.urandom(16), os.urandom(12)
    sealed = AESGCM(derived_key(key, salt)).encrypt(nonce, value.encode(), None)
    return b64encode(salt + nonce + sealed).decode()


def test_encrypted_values_are_opened_with_the_old_servers_key(url: str) -> None:
    with psycopg.connect(url) as old:
        old.execute(
            "update agent_environment_variables set value_enc = %s where key = 'API_KEY'",
            [encrypt("sk-agent-canary", "the old key")],
        )
        old.execute(
            "update mcp_server set token_enc = %s", [encrypt("sk-mcp-canary", "the old key")]
        )
    moved = Moved(url, Opener("the old key"))
    moved.take()
    secrets = moved.aggregates[DESK].state.design.secrets
    assert SEALER.open(secrets["API_KEY"]) == "sk-agent-canary"
    [server] = [each for each in moved.definitions.values() if each.of == "mcp_server"]
    config: Any = server.value["config"]
    assert SEALER.open(config["auth_token"]) == "Bearer sk-mcp-canary"
    moved.opener = Opener("another key")
    moved.take()
    assert SEALER.open(moved.aggregates[DESK].state.design.secrets["API_KEY"]) == "sk-agent-canary"
    assert "API_KEY cannot be opened any more" in str(moved.report.left)
    moved.opener = Opener("the old key")
    with psycopg.connect(url) as old:
        old.execute(
            "update agent_environment_variables set value_enc = 'main2' where key = 'BRANCH'"
        )
        old.execute(
            "update agent_environment_variables set value_enc = %s where key = 'API_KEY'",
            [encrypt("sk-rotated", "the old key")],
        )
    moved.take()
    secrets = moved.aggregates[DESK].state.design.secrets
    assert {name: SEALER.open(value) for name, value in secrets.items()} == {
        "API_KEY": "sk-rotated", "BRANCH": "main2",
    }  # fmt: skip
    for opener in (Opener(None), Opener("another key")):
        closed = Moved(url, opener)
        closed.take()
        assert list(closed.aggregates[DESK].state.design.secrets) == ["BRANCH"]
        left = {table for table, _ in closed.report.left}
        assert {"agent_environment_variables", "mcp_server"} <= left


def test_a_database_of_another_release_is_refused_with_what_to_do(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as old:
        for revision, said in (("175dd10fb916", "start a Letta server 0.16.8"), ("ffff", "newer")):
            old.execute("update alembic_version set version_num = %s", [revision])
            with pytest.raises(UnknownDatabase, match=said):
                LettaDatabase(url)
        old.execute("drop table alembic_version")
    with pytest.raises(UnknownDatabase, match="no database of a Letta server"):
        LettaDatabase(url)
    assert REVISIONS["1c28e167b74f"] == "0.16.8"


@pytest.mark.parametrize(
    ("table", "column"),
    [("messages", "tool_calls"), ("messages", "sender_id"), ("mcp_server", "token_enc")],
)
@pytest.mark.parametrize("change", ["rename column {} to another", "drop column {}"])
def test_a_column_that_is_not_there_is_refused_by_its_name(
    url: str, table: str, column: str, change: str
) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"alter table {table} {change.format(column)}")
    with pytest.raises(UnknownDatabase, match=f"`{table}` has no column `{column}`"):
        Moved(url).take()


def test_of_several_organisations_one_has_to_be_named(url: str) -> None:
    with psycopg.connect(url) as old:
        old.execute(
            "insert into organizations (id, name, is_deleted, privileged_tools, created_at)"
            " values ('org-2', 'Second', false, false, now())"
        )
    with LettaDatabase(url) as database:
        with pytest.raises(UnknownDatabase, match=r"--organisation.*org-2 \(Second\)"):
            organisation_of(database, None)
        assert organisation_of(database, "Second") == "org-2"
        with pytest.raises(UnknownDatabase, match="there are"):
            organisation_of(database, "Third")


def test_the_address_may_name_the_driver_of_the_old_server(url: str) -> None:
    for scheme in ("postgresql+pg8000", "postgres+asyncpg"):
        with LettaDatabase(f"{scheme}://{url.partition('://')[2]}") as database:
            assert database.release == "0.16.8"


def migration_of(url: str, folder: Path) -> Migration:
    """A migration that sends nothing."""
    target = Target("http://127.0.0.1:1")
    return Migration(url, None, folder, target, Opener(None), SEALER, True, lambda text: None)


def test_a_pass_that_was_written_is_sent_as_it_was_however_often_it_dies(
    url: str, tmp_path: Path
) -> None:
    passes = Passes.of(tmp_path, "old", "org")
    migration = migration_of(url, tmp_path)

    def write() -> None:
        with LettaDatabase(url) as database:
            org = organisation_of(database, None)
            migration.read(database, org, passes.draft(), Report(), passes, UnchangedVersions())

    assert not passes.is_under_way
    write()
    assert passes.is_under_way
    lines = gzip.decompress(passes.lines.read_bytes())
    assert LINE.validate_json(lines.splitlines()[-1]).kind == "footer"
    passes.end()
    assert not passes.is_under_way
    write()
    assert len(gzip.decompress(passes.lines.read_bytes()).splitlines()) == 2
    passes.give_up()
    write()
    assert len(gzip.decompress(passes.lines.read_bytes()).splitlines()) == 2


def test_a_dry_run_leaves_nothing_behind(url: str, tmp_path: Path) -> None:
    report = migration_of(url, tmp_path).dry_run()
    assert report.taken["agents"] == 8
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    told = report.as_text()
    assert "tools run in no `e2b` sandbox here" in told
    assert "OPENAI_API_BASE=http://127.0.0.1:18999/v1" in told
    assert "canary" not in told + json.dumps(report.as_json())


class EmptiedTarget(Target):
    """A server from which everything that was taken over has been deleted."""

    def get(self, path: str, **query: object) -> Any:
        if path.endswith("/") or path == "/v1/models/embedding":
            return []
        raise Missing(f"{path} is not there")


def test_what_was_deleted_here_is_said_and_stops_nothing(url: str, tmp_path: Path) -> None:
    target, report = EmptiedTarget("http://127.0.0.1:1"), Report()
    migration = Migration(url, None, tmp_path, target, Opener(None), SEALER, True, print)
    with LettaDatabase(url) as database:
        org = organisation_of(database, None)
        migration.embed_again(database, org, report)
        Comparison(database, org, target, report).run()
    for table in ("agents", "archives", "messages", "archival_passages"):
        assert report.difference_counts[table, "it is not here"] == report.found[table] > 0
    assert AskedVersions(target).version(DESK, DESK, 3) == 0
    assert AskedVersions(target).block_version("block-1") == 0


class TakingTarget(EmptiedTarget):
    """A server that imports whatever it is sent."""

    def send(self, path: str, file: Path, *, key: str, **fields: str) -> Any:
        return {"id": "import-1", "status": "completed"}


def test_what_a_pass_that_died_noted_is_reported_when_it_was_sent_again(
    url: str, tmp_path: Path
) -> None:
    with psycopg.connect(url) as old:
        old.execute("update archival_passages set embedding = null where text like '%a%'")
    target = TakingTarget("http://127.0.0.1:1")
    migration = Migration(url, None, tmp_path, target, Opener(None), SEALER, True, print)
    noted = Report()
    with LettaDatabase(url) as database:
        org = organisation_of(database, None)
        passes = migration.passes(org)
        migration.read(database, org, passes.draft(), noted, passes, AskedVersions(target))
    report = migration.run()
    assert report.taken == noted.taken
    assert report.mended == noted.mended
    assert noted.left.items() <= report.left.items()
    assert "archival_passages" in {table for table, _ in noted.left}
    assert report.left_counts | noted.left_counts == report.left_counts


class ForgettingTarget(TakingTarget):
    """A server that has forgotten the first import that it is asked for."""

    asked = 0

    def send(self, path: str, file: Path, *, key: str, **fields: str) -> Any:
        self.asked += 1
        if self.asked == 1:
            raise Gone("import-1 was made, and forgotten with its agents")
        return super().send(path, file, key=key, **fields)


def test_a_pass_that_the_server_has_forgotten_is_made_again(url: str, tmp_path: Path) -> None:
    target = ForgettingTarget("http://127.0.0.1:1")
    migration = Migration(url, None, tmp_path, target, Opener(None), SEALER, True, print)
    noted = Report()
    with LettaDatabase(url) as database:
        org = organisation_of(database, None)
        passes = migration.passes(org)
        migration.read(database, org, passes.draft(), noted, passes, AskedVersions(target))
    report = migration.run()
    assert target.asked == 2
    assert not passes.is_under_way
    assert report.taken == noted.taken


def test_every_event_is_one_that_the_services_know() -> None:
    assert {f"agent.{topic}" for topic in ("run.accepted", "message.appended")} <= EVENTS.keys()

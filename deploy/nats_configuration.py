"""The configuration of NATS, with what every user may say and hear.

`python -m deploy.nats_configuration` writes deploy/nats.conf, which the containers use; the
embedded launcher asks for its own at each start.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from libs.contracts.nats_permissions import ADMIN, SYSTEM, Permissions, permissions, users
from libs.contracts.stream_definitions import store_bytes_max

PAGE = Path(__file__).resolve().parent / "nats.conf"
PAYLOAD_BYTES_MAX = 8 * 1024 * 1024
ANSWER_SECONDS_MAX = 10
# From the connection to the name and the password: a process on a busy machine may pause there.
LOGIN_SECONDS_MAX = 10
HEADER = """\
# NATS in a container, written by `python -m deploy.nats_configuration`: do not edit it by hand.
# What it stores is on disk before it is acknowledged, here as in production.
"""


def configuration(
    *,
    server_name: str,
    host: str,
    port: int,
    store: str,
    passwords: Mapping[str, str],
    synchronous: bool = False,
) -> str:
    """The file; names and passwords are written as they are given, so quote what needs it. There
    is no HTTP monitor: it asks nobody for a password."""
    return f"""\
server_name: {server_name}
host: {quote(host)}
port: {port}
max_payload: {PAYLOAD_BYTES_MAX}
accounts {{
  $SYS {{ users: [ {user(SYSTEM, passwords)} }} ] }}
}}
authorization {{
  timeout: {LOGIN_SECONDS_MAX}
  users: [
    {user(ADMIN, passwords)} }}
{"".join(restricted_user(name, passwords, each) for name, each in permissions().items())}\
  ]
}}
jetstream {{
  store_dir: {quote(store)}
  max_memory_store: {store_bytes_max(in_memory=True)}
  max_file_store: {store_bytes_max(in_memory=False)}
{"  sync_interval: always" + chr(10) if synchronous else ""}\
}}
"""


def user(name: str, passwords: Mapping[str, str]) -> str:
    """The beginning of the entry of a user."""
    return f"{{ user: {name}, password: {passwords[name]}"


def restricted_user(name: str, passwords: Mapping[str, str], rights: Permissions) -> str:
    """The entry of a user that may do what is listed, and nothing else."""
    answers = f'allow_responses: {{ max: 1, expires: "{ANSWER_SECONDS_MAX}s" }}'
    return f"""\
    {user(name, passwords)}, permissions: {{
      publish: {{ allow: {quote(rights.publish)} }}
      subscribe: {{ allow: {quote(rights.subscribe)} }}
      {answers if rights.answers else ""}
    }} }}
"""


def quote(value: object) -> str:
    """A text or a list of texts as NATS reads them: it knows no escapes beyond ASCII."""
    return json.dumps(value, ensure_ascii=False)


def password_variable(name: str) -> str:
    """The variable of the environment with the password of a user, in a container."""
    middle = "" if name == ADMIN else f"{name.upper()}_"
    return f"HEELER_NATS_{middle}PASSWORD"


def container_file() -> str:
    """The file of the containers, as it is committed."""
    return HEADER + configuration(
        server_name="$HEELER_NATS_NAME",
        host="0.0.0.0",
        port=4222,
        store="/data",
        passwords={name: f"${password_variable(name)}" for name in users()},
        synchronous=True,
    )


if __name__ == "__main__":
    PAGE.write_text(container_file())

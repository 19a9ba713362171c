"""`python -m deploy.configuration_page`: write docs/configuration.md, and the JSON Schema of the
configuration file beside it, from the table of keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from libs.contracts.configuration.catalogue import KEYS, SECTIONS
from libs.contracts.configuration.key import Key, Kind

DOCS = Path(__file__).parent.parent / "docs"
PAGE, SCHEMA = DOCS / "configuration.md", DOCS / "heeler.schema.json"
INTRODUCTION = """# Configuration

This page is generated (`python -m deploy.configuration_page`): do not edit it.

Every setting is an environment variable, and a key of a file in TOML. The server reads one file:
the one that `HEELER_CONFIG` names, else `heeler.toml` in its state folder (`HEELER_HOME`), if it is
there.

```toml
#:schema docs/heeler.schema.json
[server]
port = 8300
password_file = "password.txt"

[models.openai]
base_url = "http://localhost:1234/v1"

[runs]
seconds_max = 600
```

`docs/heeler.schema.json` is the JSON Schema of the file: an editor that has it completes and checks
the keys.

**Which one counts.** A variable of the environment counts before the file, the file before the
default. A variable that is set to nothing is not set. Where two variables set one key, each of them
counts before the file.

**Secrets.** A key that is secret may be in a file of its own: `password_file` instead of
`password`. A configuration file with a secret in it should be readable for its owner only
(`chmod 600`); the server warns if it is not.

**Paths** that do not begin with `/` begin at the folder of the file.

**What is wrong.** A value that cannot be used stops the start, with the file and the line. A key
that does not exist is named once, with the key that may be meant, and so is a variable that begins
with `HEELER_` or `LETTA_` and that nobody reads.

| command | does |
|---|---|
| `heeler config show --origin` | shows each key, its value, and what sets it |
| `heeler config get server.port` | prints one value |
| `heeler config validate` | checks all of it as the services would, and tries a named sandbox |
| `heeler config reload` | loads the file anew into the server that runs, and says what came of it |

## Loading it anew

`heeler config reload`, a SIGHUP to the supervisor, and `POST /v1/admin/configuration/reload` do the
same. The file is read and checked as a whole; what a service would refuse changes nothing, and the
answer says why, with the line. A sandbox whose settings changed is tried with a call first. Then
the processes that read a changed setting are replaced, one after the other: connections wait
meanwhile, requests that are being answered get up to ten seconds, and runs go on in the new
process. Where one of them does not get healthy, all of them go back to
what they had. A file that a setting names (`models.prices_file`) counts with its content.

Settings that are read when the server starts, such as the port, are named and keep their values
until then. So do variables of the environment: they are those of the supervisor. `heeler up
--foreground` in a terminal ends when that is closed, unless `nohup` started it.

Each configuration that is applied has a version. `GET /v1/admin/configuration` shows it, with a
fingerprint and the last twenty attempts: `applied`, `unchanged`, `refused` or `rolled_back`, the
names of the keys that changed, and the processes that were replaced. The supervisor's log has the
same. Only the operator's organisation may ask. In containers nobody can load it anew: the route
answers 409, and the containers are started again.

## In containers

`make up MODE=compose` reads the same file and hands on what is in it. A service
that is started otherwise, in Kubernetes for instance, reads the file that `HEELER_CONFIG` names
itself: mount it.
"""
TABLE_HEAD = "\n| key | variable | default | meaning |\n|---|---|---|---|\n"


def page() -> str:
    """The reference page, made of the table of keys."""
    sections = "".join(
        f"\n## {name}\n{TABLE_HEAD}{''.join(map(row, keys))}" for name, keys in SECTIONS.items()
    )
    return INTRODUCTION + sections


def row(key: Key) -> str:
    """A key as a line of the table."""
    variables = ", ".join(f"`{name}`" for name in key.variables)
    default = key.default_text if key.default is None else f"`{toml(key.default)}`"
    notes = [key.text]
    if key.choices:
        notes.append(f"One of {', '.join(f'`{choice}`' for choice in key.choices)}.")
    if key.secret:
        notes.append("Secret.")
    if key.needs_start:
        notes.append("Read when the server starts.")
    return f"| `{key.name}` | {variables} | {default} | {' '.join(notes)} |\n"


def toml(value: Any) -> str:
    """A value as it stands in the file."""
    return json.dumps(value, ensure_ascii=False)


def schema() -> dict[str, Any]:
    """The JSON Schema of the file."""
    root: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "heeler.toml",
        **table(),
    }
    for key in KEYS:
        *above, last = key.path
        place = root
        for name in above:
            place = place["properties"].setdefault(name, table())
        place["properties"][last] = key_schema(key)
        if key.secret:
            text = f"The path of a file that holds {key.name}."
            place["properties"][f"{last}_file"] = {"type": "string", "description": text}
    return root


def table() -> dict[str, Any]:
    """The schema of a table that has no keys yet."""
    return {"type": "object", "additionalProperties": False, "properties": {}}


def key_schema(key: Key) -> dict[str, Any]:
    """The schema of the value of one key."""
    types: dict[Kind, dict[str, Any]] = {
        Kind.TEXT: {"type": "string", "minLength": 1},
        Kind.PATH: {"type": "string", "minLength": 1},
        Kind.WHOLE_NUMBER: {"type": "integer"},
        Kind.NUMBER: {"type": "number"},
        Kind.YES_OR_NO: {"type": "boolean"},
        Kind.LIST: {"type": "array", "items": {"type": "string", "pattern": "^[^,]+$"}},
    }
    made = {**types[key.kind], "description": f"{key.text} Variable: {key.variable}."}
    if key.kind is Kind.LIST and key.words_for_empty is None:
        made["minItems"] = 1
    if key.choices:
        made["enum"] = list(key.choices)
    if key.default is not None:
        made["default"] = key.default
    return made


def schema_text() -> str:
    """The JSON Schema as it is written."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    SCHEMA.write_text(schema_text())

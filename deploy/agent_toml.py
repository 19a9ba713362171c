"""`python -m deploy.agent_toml`: write the pages about agents as TOML, and the JSON Schema, from
the code that reads the files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.json_schema import PATH as SCHEMA_PATH
from libs.agent_toml.json_schema import json_schema
from libs.agent_toml.problem_catalogue import CATALOGUE
from libs.agent_toml.security_rules import BUILT_IN

DOCS = Path(__file__).parent.parent / "docs"
SCHEMA = DOCS / "agent.schema.json"
REFERENCE = DOCS / "agent-toml.md"
ERRORS = DOCS / "agent-errors.md"
EXAMPLE = DOCS.parent / "tests" / "unit" / "agent_toml" / "honest" / "reference.toml"

INTRODUCTION = """# Agents as TOML

This page is generated (`python -m deploy.agent_toml`) from the code that reads the files: do not
edit it.

An agent is a file under version control: what it is, what it remembers, what it can do and when
it acts. `heeler validate` says what is wrong with it, `heeler apply` makes it so, `heeler export`
writes one of an agent that is there; [what it leaves out](agent-forms.md) has a page.

```toml
@EXAMPLE@```

```sh
heeler validate agents/              # all files of a folder; no server is needed
heeler validate ada.toml --strict    # warnings are errors, too
heeler validate ada.toml -e production --json
heeler validate ada.toml --on-server # and does the server have its model and tools?
curl localhost:8283/v1/agents/validate -H 'content-type: application/toml' --data-binary @ada.toml
```

The exit code is 4 if there is an error. Each problem has its file, line and column, a code, what
was expected, what was probably meant, and how to mend it; all problems of a file are listed at
once, except that nothing behind an error of TOML itself can be read. [The page of all
codes](agent-errors.md) explains each. `POST /v1/agents/validate` takes the text itself, or JSON:
`{"toml": "...", "files": {"tools/weather.py": "..."}, "environment": "production"}`, and answers
`{"valid": ..., "errors": [...], "warnings": [...]}`. It is checked in a process with limits: one
that takes more than 10 s of processor or 1 GiB of memory is a 422, and where 32 files of an
organisation wait already, or one has waited for 50 s, the answer is a 503 with `Retry-After`.

**Editors** complete keys and show these texts, where a plug-in for TOML reads JSON Schemas
(Taplo, Even Better TOML): write `#:schema https://.../agent.schema.json` into the first line. The
schema is [agent.schema.json](agent.schema.json), and `GET @SCHEMA@` of every server.

**Texts** of several lines stand in three quotes and are kept to the byte; a line break directly
behind the opening quotes is not part of the text, and line breaks are always `\\n`. Long texts
may stand in files beside this one: `system_prompt_file`, `value_file`, `file`. Their paths count
from the folder of the file and do not leave it.

**Secrets** never stand in a file. `${NAME}` is the value of an environment variable where `heeler
apply` runs: in `[secrets]`, and in headers, tokens and `env` of MCP servers.

"""
ERRORS_INTRODUCTION = """# What can be wrong with a file of an agent

This page is generated (`python -m deploy.agent_toml`): do not edit it. `heeler validate` names
these codes; [the form of a file](agent-toml.md) has every key.

Codes from AGT001 on are about the text, from AGT101 on about its form, from AGT201 on about what
does not go together, from AGT301 on about what a server lacks. Those from AGT401 on are warnings.

"""
RULES_INTRODUCTION = """# Security rules

What they look for is written in `libs/agent_toml/security_rules.py`; how bad it is depends on the
`environment` of the file, or on `--environment`. An operator has rules of their own, and other
severities, in a file (`heeler validate --rules FILE`):

```toml
environment = "production"          # whatever files say

[severity.SEC014]                   # http:// is fine on our network
production = "warning"

[[rule]]
id = "ACME-1"
title = "Names a competitor"
pattern = "(?i)\\\\bglobex\\\\b"
fields = ["system_prompt", "memory"] # without: all texts
reason = "Agents do not talk about them."
fix = "Take the name out."
```

| rule | development | staging | production |
|---|---|---|---|
"""


def reference_text() -> str:
    """The page of the form."""
    text = INTRODUCTION.replace("@EXAMPLE@", EXAMPLE.read_text()).replace("@SCHEMA@", SCHEMA_PATH)
    parts = [text]
    parts += [table_text(name, model) for name, model in tables()]
    return "\n".join(parts)


def tables() -> Iterator[tuple[str, type[BaseModel]]]:
    """Every table of the form by its name in a file, the file itself first."""
    waiting: list[tuple[str, type[BaseModel]]] = [("", AgentDefinition)]
    while waiting:
        name, model = waiting.pop(0)
        yield name, model
        for key, field in model.model_fields.items():
            below = model_in(field.annotation)
            if below is not None:
                is_list = "list" in str(field.annotation)
                heading = f"{name}.{key}" if name else key
                waiting.append((f"{heading}[]" if is_list else heading, below))


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The table within an annotation, if there is one."""
    annotation = getattr(annotation, "__value__", annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := model_in(part))), None)


def table_text(name: str, model: type[BaseModel]) -> str:
    """One table with its keys."""
    heading = "The file"
    if name.endswith("[]"):
        heading = f"`[[{name.removesuffix('[]').replace('[]', '')}]]`"
    elif name:
        heading = f"`[{name.replace('[]', '')}]`"
    schema = AgentDefinition.model_json_schema()
    properties = (schema if not name else schema["$defs"][model.__name__])["properties"]
    lines = [f"## {heading}", "", (model.__doc__ or "").strip(), ""]
    lines += ["| key | value | without it | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{key}` | {value_words(properties[key], schema['$defs'])} | {default_words(field)}"
        f" | {field.description} |"
        for key, field in model.model_fields.items()
    ]
    return "\n".join(lines) + "\n"


def value_words(value: dict[str, Any], definitions: dict[str, Any]) -> str:
    """The possible values in words, with their limits."""
    if "$ref" in value:
        target = definitions[value["$ref"].rpartition("/")[2]]
        return "a table" if target.get("type") == "object" else value_words(target, definitions)
    if "anyOf" in value:
        words = [
            value_words(each, definitions) for each in value["anyOf"] if each != {"type": "null"}
        ]
        return " or ".join(dict.fromkeys(words))
    if "enum" in value:
        return ", ".join(f"`{word}`" for word in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    kinds = {"boolean": "`true`, `false`", "integer": "a number", "number": "a number"}
    kinds |= {"string": "a text", "object": "a table", "array": "a list"}
    words_of_kind = kinds.get(value.get("type", ""), "anything")
    if value.get("format") == "date-time":
        words_of_kind = "a time"
    if value.get("type") == "array":
        words_of_kind = f"a list: {value_words(value.get('items', {}), definitions)}"
    limits = ", ".join(limit_words(value))
    return f"{words_of_kind}, {limits}" if limits else words_of_kind


def limit_words(value: dict[str, Any]) -> Iterator[str]:
    """The limits of a value."""
    if "maxLength" in value:
        yield f"at most {value['maxLength']:,} characters"
    if "maxItems" in value:
        yield f"at most {value['maxItems']:,}"
    if value.get("type") == "integer" and "maximum" in value:
        yield f"{value.get('minimum', 0):,} to {value['maximum']:,}"


def default_words(field: FieldInfo) -> str:
    """The default of a key."""
    if field.is_required():
        return "**required**"
    default = field.get_default(call_default_factory=True)
    if default is None or default in ([], {}):
        return ""
    return f"`{json.dumps(default)}`"


def errors_text() -> str:
    """The page of the codes and of the security rules."""
    codes = [
        f"## {code}\n\n**{kind.title}.** {kind.explanation}\n\nTo mend it: {kind.fix}\n"
        for code, kind in CATALOGUE.items()
    ]
    rows = [
        f"| [{rule.id}](#{rule.id.lower()}) {rule.title} |"
        f" {' | '.join(rule.severities.values())} |\n"
        for rule in BUILT_IN
    ]
    rules = [
        f"## {rule.id}\n\n**{rule.title}.** {rule.reason}\n\nTo mend it: {rule.fix}\n"
        for rule in BUILT_IN
    ]
    return (
        ERRORS_INTRODUCTION
        + "\n".join(codes)
        + "\n"
        + RULES_INTRODUCTION
        + "".join(rows)
        + "\n"
        + "\n".join(rules)
    )


def schema_text() -> str:
    """The JSON Schema of the form."""
    return json.dumps(json_schema(), indent=2) + "\n"


PAGES = {SCHEMA: schema_text, REFERENCE: reference_text, ERRORS: errors_text}

if __name__ == "__main__":
    for page, text in PAGES.items():
        page.write_text(text())

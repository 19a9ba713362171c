"""The JSON Schema of the form, by which editors complete files."""

from __future__ import annotations

from typing import Any

from libs.agent_toml.definition import AgentDefinition

PATH = "/v1/schemas/agent"
# The letters of all languages, as in the models: an editor takes `\w` for those of English alone,
# so this leaves out each character of ASCII that a name may not have.
NAME_PATTERN = r"^[^\x00-\x1f!-&(-,./:-@\[-^`{-\x7f]+$"
PROMPTS = ("system_prompt_file", "system_prompt")  # one of them has to be there


def json_schema() -> dict[str, Any]:
    """The schema of a file. What it allows may still have errors: it knows no rules that compare
    one field with another.

    It has no `anyOf`: an editor would say of each mistake below one that the whole fits none of
    the choices, and not what is wrong where.
    """
    schema = _without_choices(AgentDefinition.model_json_schema())
    schema["$defs"]["AgentName"]["pattern"] = NAME_PATTERN
    one, other = PROMPTS
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Agent",
        "if": {"not": {"required": [one]}},
        "then": {"required": [other]},
    }


def _without_choices(node: Any) -> Any:
    """The same schema with each choice decided: TOML has no null, and a value that is a table is
    meant as one."""
    if isinstance(node, list):
        return [_without_choices(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    plain = {
        key: _without_choices(value)
        for key, value in node.items()
        if key != "anyOf" and (key, value) != ("default", None)
    }
    if "anyOf" not in node:
        return plain
    *others, last = [choice for choice in node["anyOf"] if choice != {"type": "null"}]
    if not others:
        return {**last, **plain}
    if all(choice.get("type") == "string" for choice in others):
        return {**last, **plain}  # the last of several texts is the widest
    [other] = others
    return {**plain, "if": {"type": "object"}, "then": last, "else": other}

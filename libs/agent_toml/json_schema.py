"""The JSON Schema of the form, by which editors complete files."""

from __future__ import annotations

from typing import Any

from libs.agent_toml.definition import AgentDefinition

PATH = "/v1/schemas/agent"


def json_schema() -> dict[str, Any]:
    """The schema of a file. What it allows may still have errors: it knows no rules that compare
    one field with another."""
    schema = AgentDefinition.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Agent",
        "anyOf": [{"required": ["system_prompt"]}, {"required": ["system_prompt_file"]}],
    }

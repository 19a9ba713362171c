"""One agent of a YAML file as a definition, and what became of each of its fields."""

from __future__ import annotations

import re
from typing import Any

from cli.yaml_agents.documents import YamlAgent
from cli.yaml_agents.tool_translation import take_mcp_servers, take_tools
from cli.yaml_agents.translated_agent import Translation, text_of

# The same under other names. Of several that are there the first counts.
NAMES = {
    "name": ("name", "agent_name", "title"),
    "description": ("description", "summary"),
    "system_prompt": (
        *("system_prompt", "system", "instructions", "system_message", "prompt", "persona_prompt"),
    ),
    "model": ("model", "llm", "model_name", "model_id"),
    "embedding": ("embedding", "embedding_model"),
    "context_window": ("context_window", "context_window_limit", "max_context_tokens"),
    "tags": ("tags", "labels"),
    "timezone": ("timezone",),
    "folders": ("folders", "sources"),
}
SETTINGS = {
    "temperature": ("temperature",),
    "max_output_tokens": ("max_output_tokens", "max_tokens", "max_completion_tokens"),
    "parallel_tool_calls": ("parallel_tool_calls",),
}
# Tables that say something of the model; what they say counts as if it stood beside them.
MODEL_TABLES = ("llm_config", "model_config", "model_settings", "llm", "model", "parameters")
# The same, where it stands in the agent itself.
BESIDE = {*NAMES["model"], *NAMES["context_window"], "provider", *sum(SETTINGS.values(), ())}
BLOCK_LISTS = ("memory_blocks", "memory", "blocks", "core_memory")
PROVIDER_OF_NAME = {
    "gpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
    "gemini": "google_ai",
}
PLACEHOLDER = re.compile(r"\{[A-Za-z_][A-Za-z0-9_-]{0,63}\}")  # as CrewAI knows them
PLACEHOLDERS_NAMED_MAX = 20
LIMIT_MIN_CHARS = 1


def translate(agent: YamlAgent) -> Translation:
    """The agent as data of a definition; nothing is left out without a remark."""
    done = Translation(agent)
    _take_plain(done)
    _take_prompt(done)
    _take_model(done)
    for take in (_take_blocks, _take_shared_blocks, take_tools, take_mcp_servers, _take_metadata):
        take(done)
    for key in agent.data.keys() - done.seen:
        done.remark(str(key), "left out: a TOML file of an agent has no such thing")
    done.remarks.sort()
    return done


def _take_plain(done: Translation) -> None:
    name = done.take(NAMES["name"]) or _crew_text(done.take(("role",))) or done.agent.file.stem
    done.data["name"] = _allowed_name(done, str(name))
    description = text_of(done, "description", done.take(NAMES["description"]))
    if description:
        done.data["description"] = description
    timezone = done.take(NAMES["timezone"])
    if timezone is not None:
        done.data["timezone"] = str(timezone)
    embedding = done.take(NAMES["embedding"])
    if isinstance(embedding, str):
        done.data["embedding"] = embedding
    tags = done.take(NAMES["tags"])
    if isinstance(tags, dict):
        tags = [f"{key}={value}" for key, value in tags.items()]
    if tags:
        done.data["tags"] = [str(tag) for tag in tags]
    folders = done.take(NAMES["folders"]) or []
    if folders:
        done.data["folders"] = [
            str(folder["name"]) if isinstance(folder, dict) else str(folder) for folder in folders
        ]
        done.remark("folders", "the folders must be on the server: upload with `heeler files`")


def _allowed_name(done: Translation, name: str) -> str:
    allowed = re.sub(r"[^\w '\-]+", "-", name.strip()).strip("-") or "agent"
    if allowed != name:
        done.remark("name", f"'{name}' became '{allowed}'")
    return allowed


def _take_prompt(done: Translation) -> None:
    prompt = text_of(done, "system_prompt", done.take(NAMES["system_prompt"]))
    # The three texts that CrewAI makes a prompt of.
    parts = [(key, _crew_text(done.take((key,)))) for key in ("role", "goal", "backstory")]
    said = [(key, str(text).strip()) for key, text in parts if text]
    if prompt is None and said:
        lines = {"role": "You are {}.", "goal": "Your goal: {}", "backstory": "{}"}
        prompt = "\n\n".join(
            lines[key].format(text.rstrip(".") if key == "role" else text) for key, text in said
        )
        done.remark("role", "role, goal and backstory are the prompt now")
        for key, text in said:
            _tell_placeholders(done, key, text)
    if prompt is None:
        prompt = done.data.get("description")
        words = "the description stands for it" if prompt else "there is none: write one"
        done.remark("system_prompt", words)
    if prompt:
        done.data["system_prompt"] = prompt


def _crew_text(value: Any) -> Any:
    """A text of CrewAI: a placeholder without quotes is a table in YAML."""
    match value:
        case dict() if [*value.values()] == [None]:
            return f"{{{next(iter(value))}}}"
        case _:
            return value


def _tell_placeholders(done: Translation, key: str, text: str) -> None:
    """Name what CrewAI would fill in: nothing does that here."""
    found = dict.fromkeys(PLACEHOLDER.findall(text))
    if found:
        names = ", ".join([*found][:PLACEHOLDERS_NAMED_MAX])
        words = f"CrewAI fills in {names} when a crew starts; here it stays as it is"
        done.remark(key, f"{words}: write what it stands for")


def _take_model(done: Translation) -> None:
    data = done.agent.data
    tables = [table for key in MODEL_TABLES if isinstance(table := data.get(key), dict)]
    said = {key: value for table in reversed(tables) for key, value in table.items()}
    said |= {key: data[key] for key in BESIDE & data.keys() if not isinstance(data[key], dict)}
    done.seen |= {*MODEL_TABLES, *BESIDE}
    model = done.take((*NAMES["model"], "handle", "name"), said)
    if isinstance(model, str) and (handle := _handle(done, model, said.get("provider"))):
        done.data["model"] = handle
    window = done.take(NAMES["context_window"], said)
    if isinstance(window, int):
        done.data["context_window"] = window
    settings = {
        key: value for key, keys in SETTINGS.items() if (value := done.take(keys, said)) is not None
    }
    if "temperature" in settings:
        settings["temperature"] = float(settings["temperature"])
    if settings:
        done.data["model_settings"] = settings
    for key in said.keys() - {*BESIDE, "handle", "name"}:
        done.remark(f"model.{key}", "left out: a TOML file of an agent has no such setting")


def _handle(done: Translation, model: str, provider: Any) -> str | None:
    """`provider/name`; of a name alone what it is known for."""
    if "/" in model:
        return model
    if ":" in model and not provider:  # provider:name
        provider, model = model.split(":", 1)
    if not provider:
        known = (of for start, of in PROVIDER_OF_NAME.items() if model.startswith(start))
        provider = next(known, None)
    if not provider:
        done.remark("model", f"left out: whose model is '{model}'? Write provider/{model}")
        return None
    handle = f"{provider}/{model}"
    done.remark("model", f"'{model}' became '{handle}'")
    return handle


def _take_blocks(done: Translation) -> None:
    blocks: list[dict[str, Any]] = []
    for key in BLOCK_LISTS:
        given = done.take((key,))
        match given:
            case None:
                pass
            case list():
                blocks += [made for each in given if (made := block_of(done, key, each))]
            case dict() if all(isinstance(value, str | dict) for value in given.values()):
                entries = [_labelled(label, value) for label, value in given.items()]
                blocks += [made for each in entries if (made := block_of(done, key, each))]
            case _:
                done.remark(key, "left out: it is no list of blocks")
    for label in ("persona", "human"):
        value = text_of(done, label, done.take((label,)))
        if value is not None:
            blocks.append({"label": label, "value": value})
    if blocks:
        done.data["memory"] = blocks


def _labelled(label: Any, value: Any) -> dict[str, Any]:
    return {"label": str(label), **(value if isinstance(value, dict) else {"value": value})}


def block_of(done: Translation, key: str, given: Any) -> dict[str, Any] | None:
    """A memory block; None, and a remark, where it has no name."""
    if not isinstance(given, dict) or not (label := given.get("label") or given.get("name")):
        done.remark(key, "left out: a block without a name")
        return None
    place = f"{key}.{label}"
    block: dict[str, Any] = {"label": str(label)}
    names_file = any(given.get(name) for name in ("from_file", "file", "path"))
    value = given if names_file else given.get("value", given.get("content"))
    text = text_of(done, place, value)
    if text is not None:
        block["value"] = text
    limit = given.get("limit")
    if isinstance(limit, int) and limit >= LIMIT_MIN_CHARS:
        if text is not None and len(text) > limit:
            done.remark(place, f"its limit was {limit}, and its text has {len(text)} characters")
            limit = len(text)
        block["limit"] = limit
    if isinstance(given.get("description"), str):
        block["description"] = given["description"]
    if given.get("read_only"):
        block["read_only"] = True
    if given.get("agent_owned") is False:
        done.remark(
            place, "an agent keeps what it writes into it: `read_only = true` prevents that"
        )
    for other in given.keys() - {
        "label",
        "name",
        "value",
        "content",
        "from_file",
        "file",
        "path",
        "limit",
        "description",
        "read_only",
        "agent_owned",
    }:
        done.remark(f"{place}.{other}", "left out: a block has no such thing")
    return block


def _take_shared_blocks(done: Translation) -> None:
    wanted = done.take(("shared_blocks",)) or []
    there = {
        str(block.get("name") or block.get("label")): block
        for block in done.agent.common.get("shared_blocks") or []
        if isinstance(block, dict)
    }
    for name in wanted:
        block = block_of(done, "shared_blocks", there.get(str(name)) or {"name": str(name)})
        if str(name) not in there:
            done.remark(f"shared_blocks.{name}", "its text is not in this file")
        if block:
            done.data.setdefault("memory", []).append({**block, "shared": True})


def _take_metadata(done: Translation) -> None:
    metadata = done.take(("metadata",))
    if isinstance(metadata, dict) and metadata:
        done.data["metadata"] = {str(key): value for key, value in metadata.items()}
    for key in ("version", "apiVersion", "kind"):
        done.seen.add(key)

"""Variables of templates: `{{name}}` in the value of a block, and the names of an agent's
secrets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from libs.contracts.api.templates import VARIABLE, TemplateContent, variables_of
from libs.contracts.bus_messages import Rejected
from libs.contracts.letta.request_size_limits import BLOCK_VALUE_CHARS_MAX
from services.api.domain.refusals import refuse

SHOWN_MAX = 10  # names in a refusal


def memory_variables(content: TemplateContent) -> list[str]:
    """The variables in the blocks of a template, each once, in their order."""
    return list(
        dict.fromkeys(name for block in content.blocks for name in variables_of(block.value))
    )


def tool_variables(content: TemplateContent) -> list[str]:
    """The names of the secrets that the agents of a template have, each once, in their order."""
    return list(dict.fromkeys(name for agent in content.agents for name in agent.tool_variables))


def substitute(text: str, values: Mapping[str, str]) -> str:
    """The text with the values of its variables; one that has none stays as it is. Variables in
    values are texts."""
    return VARIABLE.sub(lambda found: values.get(found[1], found[0]), text)


def substituted_chars(text: str, values: Mapping[str, str]) -> int:
    """The length of a text in characters with the values of its variables, without making it."""
    found = VARIABLE.finditer(text)
    grown = (len(values.get(each[1], each[0])) - len(each[0]) for each in found)
    return len(text) + sum(grown)


def refusal_of_lengths(content: TemplateContent, values: Mapping[str, str]) -> Rejected | None:
    """The refusal of values with which a block would be longer than it may be."""
    for block in content.blocks:
        chars = substituted_chars(block.value, values)
        most = min(block.limit, BLOCK_VALUE_CHARS_MAX)
        if chars > most:
            names = name_list(variables_of(block.value))
            reason = f"the block `{block.label}` would have {chars} characters, and at most {most}"
            return refuse(f"`memory_variables`: {reason}: shorten {names}")
    return None


def refusal_of_variables(
    content: TemplateContent, memory: Mapping[str, str], tools: Collection[str]
) -> Rejected | None:
    """The refusal of variables that a template lacks, of others being left out, or of their sizes.
    Secrets of names that the template does not know are taken: a tool may ask for more."""
    known = dict.fromkeys(memory_variables(content))
    if unknown := [name for name in memory if name not in known]:
        knows = f"it has {name_list(known)}" if known else "it has none"
        return refuse(f"`memory_variables`: the template has no {name_list(unknown)}: {knows}")
    if missing := [name for name in known if name not in memory]:
        return refuse(f"`memory_variables`: {name_list(missing)} of the template: give a value")
    missing = [
        name
        for agent in content.agents
        for name, value in agent.tool_variables.items()
        if value is None and name not in tools
    ]
    if missing:
        return refuse(f"`tool_variables`: {name_list(missing)} of the template: give a value")
    return refusal_of_lengths(content, memory)


def name_list(names: Iterable[str]) -> str:
    """Names for a reader: the first of them, each once."""
    shown = [f"`{name}`" for name in dict.fromkeys(names)]
    return ", ".join(shown[:SHOWN_MAX]) + (", ..." if len(shown) > SHOWN_MAX else "")

"""Files full of text that is slow to read: TOML, agent files, and the lines of imports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from libs.agent_toml import read
from libs.agent_toml.tool_sources import forget_sources
from libs.contracts.api.import_errors import BadSource
from services.api.domain.line_checks import LineChecks
from services.api.v1.agent_file.agent_file_reader import read_file
from services.api.v1.agent_file.entry_problems import AgentFileInvalid
from tests.slow_text.fillings import FILLINGS, filled
from tests.slow_text.served import GIVEN_UP_SECONDS, TooSlow, given_up_after, used_seconds

TOML_CHARS = 50_000
FILE_CHARS = 100_000
START = 'name = "a"\nsystem_prompt = "b"\n'
HEADER = (
    b'{"kind":"header","written_by":"a","exported_at":"2026-01-01T00:00:00Z",'
    b'"agent_ids":["agent-1"]}\n'
)
# As TOML; `$` is the text.
TOML = (
    "$",
    START + "$",
    START + "#$\n",
    START + "$ = 1\n",
    START + '"$" = 1\n',
    START + "[$]\n",
    START + "metadata = {a = [$]}\n",
    START + 'description = "$"\n',
    START + "description = '$'\n",
    START + 'description = """$"""\n',
    START + "description = '''$'''\n",
    START + 'description = """\n$',
    START + "[[memory]]\nlabel = '''$'''\nvalue = '''$'''\n",
    START + "[[tool]]\nsource = '''\n$\ndef f(): pass\n'''\n",
    START + "[[tool]]\nsource = '''\ndef f():\n    '$'\n    exec($)\n'''\n",
    START
    + "[[tool]]\nname = 'a'\nsource_type = 'typescript'\npackages = ['''$''']\nsource='''$'''",
    START + "[[mcp_servers]]\nname = 'a'\nurl = 'http://$'\nauth_token = '$'\n",
    START + "[[mcp_servers]]\nname = 'a'\ncommand = '''$'''\nargs = ['''$''']\n",
    START + "[[schedules]]\nname = 'a'\nmessage = '''$'''\ncron = '''$'''\n",
    START + "[[schedules]]\nname = 'a'\nmessage = 'a'\nat = '''$'''\ntimezone = '''$'''\n",
    START + "[secrets]\nA = '''$'''\n",
)


def check_toml(text: str) -> None:
    """Check the text of an agent's file."""
    forget_sources()
    read(text)


def read_agent_file(text: str) -> None:
    """Read an agent file of any form that has this text."""
    written = json.dumps(text)
    agent = {"id": "agent-1", "name": text[:100], "system": text, "messages": [{"content": text}]}
    tool = {
        "id": "tool-1",
        "name": text[:50],
        "source_code": text,
        "json_schema": {text[:500]: text},
    }
    block = {"id": "block-1", "label": text[:50], "value": text}
    whole = {"agents": [agent], "tools": [tool], "blocks": [block], "metadata": {"a": text}}
    for document in (
        text,
        f"{{{text}",
        f'{{"agents": [{text}',
        f'{{"agents": [{{"system": "{text}',
        f'{{{written}: 1, "agents": []}}',
        json.dumps(whole),
        json.dumps({"agent_type": "memgpt_agent", "system": text, "tools": [tool], "name": text}),
    ):
        with suppress(AgentFileInvalid):
            read_file(document.encode("utf-8", "surrogatepass"))


def check_lines(text: str) -> None:
    """Check lines of an import that have this text."""
    written, line = json.dumps(text), text.replace("\n", " ")
    definition = f'{{"kind":"definition","of":"tool","id":"tool-1","value":{{"a":{written}}}}}'
    event = f'{{"topic":"block.created","payload":{{"block":{written}}}}}'
    history = f'{{"kind":"history","service":"memory","history":{{"events":[{event}]}}}}'
    for each in (line, f'{{"kind":"header" "{line}', definition, history, f"{definition}{line}"):
        checks = LineChecks()
        checks.take(HEADER)
        with suppress(BadSource):
            checks.take(each.encode("utf-8", "surrogatepass") + b"\n")


READERS: Mapping[str, Callable[[str], None]] = {
    "an agent file": read_agent_file,
    "lines of an import": check_lines,
}


def slow_files(every: int, seconds_max: float) -> list[str]:
    """The forms of files that take too much of the processor; each has one of so many fillings."""
    found = []
    for name, reader, text in forms(every):
        taken = seconds_with(reader, text)
        if taken > seconds_max and (taken := seconds_with(reader, text)) > seconds_max:
            found.append(f"{taken:.2f} s: {name}")
    return found


def forms(every: int) -> Iterator[tuple[str, Callable[[str], None], str]]:
    """Each form with each filling, or with every second, third ... of them."""
    for number, filling in enumerate(FILLINGS):
        for place, template in enumerate(TOML):
            if (number + place) % every == 0:
                text = template.replace("$", filled(filling, TOML_CHARS))
                yield f"{template[-60:]!r} of {filling!r}", check_toml, text
        if number % every == 0:
            for name, reader in READERS.items():
                yield f"{name} of {filling!r}", reader, filled(filling, FILE_CHARS)


def seconds_with(reader: Callable[[str], None], text: str) -> float:
    """What a reader takes of the processor; not much more than what it is given up after."""
    with used_seconds() as used, given_up_after(GIVEN_UP_SECONDS), suppress(TooSlow):
        reader(text)
    return used.seconds

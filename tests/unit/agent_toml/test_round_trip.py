"""What is written reads back as the same, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.agent_toml import AgentDefinition, read, write

HOSTILE = st.one_of(
    st.text(max_size=80),
    st.text(alphabet="\"'\\\n\r\t #=[]{}.ab\u2028\x7f\x1b", max_size=60),
    st.sampled_from(['"""', "'''", '\\"""\n', "a\n'", 'a\n"', "\\\n'''", '""""""\n', "x\r\ny"]),
)
TEXTS = HOSTILE.map(lambda text: text.replace("\x00", ""))
NAMES = TEXTS.filter(bool)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.one_of(st.booleans(), st.integers(), FLOATS, TEXTS),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXTS, below, max_size=3),
    max_leaves=8,
)
BLOCKS = st.fixed_dictionaries(
    {"value": TEXTS, "metadata": st.dictionaries(TEXTS, JSON, max_size=3)},
    optional={"description": TEXTS, "read_only": st.booleans(), "shared": st.booleans()},
)


@st.composite
def definitions(draw: st.DrawFn) -> AgentDefinition:
    """A definition with hostile texts in it."""
    blocks = draw(st.lists(BLOCKS, max_size=3))
    fields: dict[str, Any] = {
        "name": "ada",
        "system_prompt": draw(TEXTS.filter(str.strip)),
        "description": draw(st.none() | TEXTS),
        "tags": draw(st.lists(NAMES, max_size=4, unique=True)),
        "metadata": draw(st.dictionaries(TEXTS, JSON, max_size=4)),
        "memory": [{"label": f"b{index}", **block} for index, block in enumerate(blocks)],
        "schedules": [{"name": "s", "cron": "0 9 * * *", "message": f"m{draw(TEXTS)}"}],
        "secrets": {"TOKEN": "${ADA}"},
    }
    return AgentDefinition.model_validate(fields)


@settings(max_examples=200, deadline=None)
@given(definitions())
def test_a_written_definition_reads_back_as_the_same(definition: AgentDefinition) -> None:
    reading = read(write(definition), rules=None)
    assert reading.errors == ()
    assert reading.definition == definition


@pytest.mark.parametrize("text", ['say "hi"\n', "C:\\temp\n'''", "tab\there\n", "a\r\nb\n", '\n"'])
def test_texts_of_several_lines_are_kept_to_the_byte(text: str) -> None:
    definition = AgentDefinition.model_validate({"name": "ada", "system_prompt": f"x{text}"})
    found = read(write(definition), rules=None).definition
    assert found is not None
    assert found.system_prompt == f"x{text}"


def test_a_prompt_of_several_lines_is_written_as_such() -> None:
    prompt = 'You are Ada.\n\nBe "brief".\n'
    definition = AgentDefinition.model_validate({"name": "ada", "system_prompt": prompt})
    assert write(definition) == f'name = "ada"\nsystem_prompt = """\n{prompt}"""\n'

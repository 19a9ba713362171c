"""What is wrong with a file is said all at once: where, what was expected, and how to mend it."""

from __future__ import annotations

import pytest

from libs.agent_toml import Catalogue, Problem, read, to_json, to_text
from libs.agent_toml.problem_catalogue import CATALOGUE
from libs.contracts.tools.tool_permission_evaluation import compile_list

AGENT = 'name = "ada"\nsystem_prompt = "Hi."\nmodel = "openai/gpt-4.1"\ndescription = "d"\n'
TOOL = "[[tool]]\nsource = '''\ndef roll() -> int:\n    return 1\n'''\n"
SCHEDULE = '[[schedules]]\nname = "s"\n'
# A code, what is added to a good file, and the line and column of the problem.
WRONG = [
    ("AGT001", "tags = [", 5, 8),
    ("AGT001", 'timezone = """', 5, 12),
    ("AGT002", "a" + ".a" * 40 + " = 1", 5, 65),
    ("AGT101", "[[memory]]\nvalue = 'x'", 5, 1),
    ("AGT102", 'timezon = "UTC"', 5, 1),
    ("AGT103", "tags = 'a'", 5, 8),
    ("AGT103", "hidden = 'yes'", 5, 10),
    ("AGT103", "[[memory]]\nlabel = 3\nvalue = 'x'", 6, 9),
    ("AGT104", f"[[mcp_servers]]\nname = '{'a' * 201}'\nurl = 'https://a.test'", 6, 8),
    ("AGT105", "environment = 'prod'", 5, 15),
    ("AGT106", "embedding = 'small'", 5, 13),
    ("AGT107", "[metadata]\nday = 2030-01-01", 6, 7),
    ("AGT107", "[metadata]\nlimit = inf", 6, 9),
    ("AGT107", "[metadata]\nlimit = -1e999", 6, 9),
    ("AGT107", "[metadata]\nlimit = 0x" + "f" * 5_000, 6, 9),
    ("AGT107", "[metadata]\nlimit = 0b" + "1" * 20_000, 6, 9),
    ("AGT107", "context_window = 0o" + "7" * 9_000, 5, 18),
    ("AGT001", "[metadata]\na = 1\nlimit = " + "9" * 5_000, 7, 9),
    ("AGT001", "context_window = -" + "9" * 5_000 + "  # many", 5, 18),
    ("AGT001", "stop = [1,\n  +" + "9_" * 5_000 + "9]", 6, 3),
    ("AGT108", "[[memory]]\nlabel = ''\ndescription = 'x'", 6, 9),
    ("AGT201", "tools = ['a', 'a']", 5, 15),
    ("AGT201", "[[memory]]\nlabel = 'human'\n[[memory]]\nlabel = 'human'", 8, 9),
    ("AGT201", TOOL + TOOL, 10, 1),
    ("AGT202", "[[memory]]\nlabel = 'human'\nlimit = 3\nvalue = 'four'", 8, 9),
    ("AGT203", SCHEDULE + "message = 'm'\nevery = '1h'\ncron = '@daily'", 9, 1),
    ("AGT204", SCHEDULE + "message = 'm'", 5, 1),
    ("AGT204", "[[mcp_servers]]\nname = 'm'", 5, 1),
    ("AGT205", "[[tool]]\nfile = 'tools/no.py'", 6, 8),
    ("AGT205", "[[tool]]\nfile = '/etc/passwd'", 6, 8),
    ("AGT206", SCHEDULE + "message = 'm'\ncron = '0 25 * * *'", 8, 8),
    ("AGT206", SCHEDULE + "message = 'm'\nevery = '7m'", 8, 9),
    ("AGT206", SCHEDULE + "message = 'm'\nat = 'tomorrow'", 8, 6),
    ("AGT207", "timezone = 'Europe/Berlni'", 5, 12),
    ("AGT208", TOOL + "[[tool_rules]]\ntype = 'run_first'\ntool_name = 'rol'", 12, 13),
    ("AGT209", "[model_settings]\nthinking = { type = 'enabled' }", 6, 1),
    ("AGT209", "[[tool_rules]]\ntype = 'exit_loop'\ntool_name = 'run_code'\nargs = {}", 8, 1),
    ("AGT210", "[[tool]]\nsource = 'def f(:'", 6, 10),
    ("AGT211", "[secrets]\nTOKEN = 'abc'", 6, 9),
    ("AGT212", "", 3, 1),
    ("AGT301", "", 3, 9),
    ("AGT302", "tools = ['web_serch']", 5, 10),
    ("AGT303", "folders = ['manuals']", 5, 12),
    ("AGT304", "context_window = 10000", 5, 18),
    ("AGT305", TOOL, 5, 1),
    ("AGT402", f"[[memory]]\nlabel = 'human'\nlimit = 10\nvalue = '{'x' * 10}'", 8, 9),
    ("AGT403", "[[memory]]\nlabel = 'notes'", 5, 1),
]
NO_TOOLS = compile_list([], None)
CATALOGUES = {
    "AGT301": Catalogue(models={"openai/gpt-4o": 128_000}),
    "AGT302": Catalogue(tools=["my_tool"]),
    "AGT303": Catalogue(folders=["manual"]),
    "AGT304": Catalogue(models={"openai/gpt-4.1": 8_000}),
    "AGT305": Catalogue(allowed=NO_TOOLS),
}


# Numbers that are right, however they are written.
NUMBERS = {"-0": 0, "-0.0": 0.0, "0x1f": 31, "0o17": 15, "0b101": 5, "9" * 4_300: 10**4_300 - 1}


@pytest.mark.parametrize(("code", "added", "line", "column"), WRONG)
def test_a_problem_has_its_place_and_its_code(
    code: str, added: str, line: int, column: int
) -> None:
    text = AGENT + added + "\n"
    if code == "AGT212":
        text = 'name = "ada"\nsystem_prompt = "x"\n[model_settings]\nstrict = true\n'
    found = read(text, file="ada.toml", catalogue=CATALOGUES.get(code)).problems
    places = {problem.code: (problem.line, problem.column) for problem in reversed(found)}
    assert places.get(code) == (line, column), [to_text(problem) for problem in found]


def test_a_good_file_has_no_problems() -> None:
    assert read(AGENT).problems == ()


def test_all_problems_are_listed_in_the_order_of_the_file() -> None:
    text = (
        'nam = "ada"\nmodel = 3\ntags = ["a", 1]\n[[memory]]\nlable = "human"\nlimit = 0\n'
        '[[schedules]]\nname = "s"\ncron = "x"\nmessage = "m"\n[limits]\nmax_files_open = 9999\n'
    )
    found = read(text, file="ada.toml").errors
    assert [(problem.line, problem.code) for problem in found] == [
        (1, "AGT101"),
        (1, "AGT101"),
        (1, "AGT102"),
        (2, "AGT103"),
        (3, "AGT103"),
        (4, "AGT101"),
        (5, "AGT102"),
        (6, "AGT108"),
        (9, "AGT206"),
        (12, "AGT104"),
    ]


@pytest.mark.parametrize(
    ("added", "suggestion"),
    [
        ('timezon = "UTC"', "timezone"),
        ("environment = 'prodution'", "production"),
        ("[[tool_rules]]\ntype = 'exit_lop'\ntool_name = 'run_code'", "exit_loop"),
        ("context_window = '8000'", "8000"),
        ("tags = ['a', 3]", '"3"'),
        ("hidden = 'yes'", "true"),
        ("blocks = []", "[[memory]]"),
        ("temperature = 0.2", "[model_settings] temperature"),
        (TOOL + "[[tool_rules]]\ntype = 'exit_loop'\ntool_name = 'rool'", "roll"),
    ],
)
def test_a_suggestion_says_what_was_probably_meant(added: str, suggestion: str) -> None:
    assert suggestion in [problem.suggestion for problem in read(AGENT + added + "\n").errors]


def test_a_problem_reads_well_and_is_json_for_programs() -> None:
    problem = read('name = "ada"\nsystem_promt = "x"\n', file="ada.toml").errors[-1]
    assert to_text(problem) == (
        "ada.toml:2:1: error AGT102: there is no key `system_promt`\n"
        "    did you mean: system_prompt"
    )
    document = to_json(problem)
    assert document["docs"] == "docs/agent-errors.md#agt102"
    assert {"file", "line", "column", "code", "message", "expected", "suggestion", "severity"} <= (
        document.keys()
    )


def test_each_code_of_a_problem_stands_in_the_catalogue_with_a_fix() -> None:
    codes = {code for code, *_ in WRONG}
    assert codes <= CATALOGUE.keys()
    assert all(kind.title and kind.explanation and kind.fix for kind in CATALOGUE.values())


def test_nothing_is_said_twice_of_what_is_wrong_already() -> None:
    found = read('name = "ada"\nsystem_promt = "x"\nmodl = "a/b"\ndescripton = "d"\n').problems
    assert [problem.code for problem in found] == ["AGT102"] * 3


def test_crlf_and_escapes_do_not_move_places() -> None:
    text = 'name = "a\\u0064a"\r\nsystem_prompt = "x"\r\nmetadata."a b".\'c\' = 1\r\nbad = 1\r\n'
    problems = [p for p in read(text).errors if p.code == "AGT102"]
    assert [(problem.line, problem.column) for problem in problems] == [(4, 1)]


def test_a_hostile_file_is_bounded() -> None:
    deep = read("x = " + "[" * 100_000)
    assert [problem.code for problem in deep.problems] == ["AGT002"]
    many = read("".join(f"k{number} = 1\n" for number in range(2_000)))
    assert len(many.problems) <= 500
    assert isinstance(many.problems[0], Problem)


@pytest.mark.parametrize("written", NUMBERS, ids=lambda written: written[:8])
def test_numbers_are_read_however_they_are_written(written: str) -> None:
    checked = read(f"{AGENT}[metadata]\nlimit = {written}\n")
    assert checked.definition is not None, checked.problems
    assert checked.definition.metadata == {"limit": NUMBERS[written]}

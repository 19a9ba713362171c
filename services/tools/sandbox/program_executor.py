"""Runs inside of the sandbox, as the process that executes one program. Not part of any service.

It waits on stdin for the program (a length, then JSON), limits itself, executes it, and writes the
result (a length, then JSON) to a pipe of its own. Nothing of Heeler can be imported here. What the
code does to this process can only spoil its own result: who reads it trusts none of it.

Told to stay, it executes one program after another, as `session_executor.py` says.
"""

from __future__ import annotations

# What takes long to import is imported where it is needed: all of it is paid by each cold call.
import ctypes
import json
import os
import resource
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

RESULT, SCRIPT, REPLIES, LENGTH_BYTES = 3, 9, 11, 4
NAME, TOOL_MODULE, SHELL_ARGUMENTS = "tool.py", "__tool__", "ARGUMENTS"
OPEN_FILES_MAX = 128
SPARSE = ("javascript", "typescript")
IGNORED_BY_PYTHON = (13, 25)  # SIGPIPE and SIGXFSZ
LESS_IMPORTANT = 5  # than the services, when the processors are busy
# Already counted when the code begins: this process, and the first one of the sandbox.
OWN_PROCESSES = 3
REPORT_BYTES = 32 << 20  # to say that the memory was used up
NO_MEMORY = b'{"status": "error", "reason": "MemoryError: no memory was left for the result"}'
PATH = "/usr/local/bin:/usr/bin:/bin"

# Landlock: the rights on files that each version of it can take away, and what is left.
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
VERSION_ONLY, PATH_BENEATH, NO_NEW_PRIVILEGES = 1, 1, 38
FILE_RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 5: 0xFFFF}
READ_RIGHTS, RIGHTS_OF_A_FILE = 0b1101, 0x4000 | 0x8000 | 0b111
SCOPED_SINCE, SIGNALS_AND_ABSTRACT_SOCKETS = 6, 0b11


def lock_files(readable: list[str], writable: list[str], *, scoped: bool = True) -> bool:
    """Whether the kernel keeps this process, and all that come of it, from other files, from the
    insides of processes that do not come of it, and if `scoped` from their signals and sockets."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), VERSION_ONLY)
    if version < 1:
        return False
    rights = max(bits for since, bits in FILE_RIGHTS.items() if since <= version)
    attributes = struct.pack("QQQ", rights, 0, SIGNALS_AND_ABSTRACT_SOCKETS if scoped else 0)
    size = ctypes.c_size_t(24 if version >= SCOPED_SINCE else 8)
    rules = libc.syscall(LANDLOCK_CREATE, attributes, size, 0)
    if rules < 0:
        return False
    for path in [*readable, *writable]:
        allowed = rights if path in writable else READ_RIGHTS
        try:
            beneath = os.open(path, os.O_PATH)
        except OSError:
            continue
        if not stat.S_ISDIR(os.fstat(beneath).st_mode):
            allowed &= RIGHTS_OF_A_FILE
        rule = struct.pack("=Qi", allowed & rights, beneath)
        libc.syscall(LANDLOCK_ADD, rules, PATH_BENEATH, rule, 0)
        os.close(beneath)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    locked: bool = libc.syscall(LANDLOCK_RESTRICT, rules, 0) == 0
    os.close(rules)
    return locked


def read_exactly(count: int) -> bytes:
    """So many bytes of stdin; the process ends if nobody sends them."""
    data = b""
    while len(data) < count:
        piece = os.read(0, min(count - len(data), 1 << 20))
        if not piece:
            os._exit(0)
        data += piece
    return data


def tell(outcome: dict[str, Any], bytes_max: int) -> None:
    """Write the result, and nothing more."""
    data = json.dumps(outcome, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    if len(data) > bytes_max:
        why = f"The result has {len(data)} bytes; at most {bytes_max} can be given back"
        data = json.dumps({"status": "error", "reason": why}).encode()
    write_frame(data)


def write_frame(data: bytes) -> None:
    """Bytes with their length before them."""
    data = len(data).to_bytes(LENGTH_BYTES, "big") + data
    while data:
        data = data[os.write(RESULT, data) :]


def limit(limits: dict[str, Any], language: str) -> None:
    """Take away what the program may not use; nothing of it can be raised again."""
    seconds = limits["cpu_seconds"]
    bounds = {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_CPU: (seconds, seconds + 1),
        resource.RLIMIT_FSIZE: (limits["file_bytes"],) * 2,
        resource.RLIMIT_NOFILE: (limits.get("open_files", OPEN_FILES_MAX),) * 2,
        resource.RLIMIT_MEMLOCK: (0, 0),
        resource.RLIMIT_MSGQUEUE: (0, 0),
    }
    if limits["processes"] is not None:
        bounds[resource.RLIMIT_NPROC] = (limits["processes"] + OWN_PROCESSES,) * 2
    if language not in SPARSE:  # their engines set aside far more addresses than they use
        bounds[resource.RLIMIT_AS] = (
            limits["memory_bytes"],
            limits["memory_bytes"] + REPORT_BYTES,
        )
    for name, bound in bounds.items():
        resource.setrlimit(name, bound)


def as_json(value: Any) -> Any:
    """The value if JSON can say it, else what it says of itself."""
    try:
        json.dumps(value, allow_nan=False)
        return value
    except (TypeError, ValueError, RecursionError):
        pass
    for text in (str, repr):
        try:
            return str(text(value))
        except Exception:
            continue
    return f"<a {type(value).__name__} that cannot be shown>"


def failure(error: BaseException, source: str) -> dict[str, Any]:
    """The traceback from the program's first line on."""
    resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[1],) * 2)
    import io
    import linecache
    import traceback

    linecache.cache[NAME] = (len(source), None, [*io.StringIO(source)], NAME)
    shown = traceback.TracebackException.from_exception(error)
    seen: set[int] = set()
    part: traceback.TracebackException | None = shown
    while part is not None and id(part) not in seen:
        seen.add(id(part))
        names = [frame.filename for frame in part.stack]
        first = names.index(NAME) if NAME in names else len(names)
        part.stack = traceback.StackSummary.from_list(part.stack[first:])
        part = part.__cause__ or part.__context__
    return {"status": "error", "reason": "".join(shown.format()).strip()}


def run_python(program: dict[str, Any]) -> dict[str, Any]:
    """Execute the source, then call the function."""
    source = program["source"]
    # A tool is imported to be called: what its source does as a program of its own is not wanted.
    module = type(sys)(TOOL_MODULE if program["function"] else "__main__")
    module.__dict__["__file__"] = NAME
    sys.modules["__main__"] = sys.modules[module.__name__] = module
    try:
        models = models_of(program, module)
        if program["prelude"]:
            given: dict[str, Any] = {}
            exec(compile(program["prelude"], "tools.py", "exec", dont_inherit=True), given)
            module.__dict__.update(given["names"]())
        if program["last_value"]:
            return {"status": "success", "value": last_value(source, module)}
        exec(compile(source, NAME, "exec", dont_inherit=True), module.__dict__)
        return {"status": "success", "value": as_json(call_function(module, program, models))}
    except SystemExit as stop:
        if stop.code in (None, 0):
            return {"status": "success", "value": None}
        return {"status": "error", "reason": f"The code ended itself with {stop.code!r}"}
    except BaseException as error:
        return failure(error, source)


def last_value(source: str, module: ModuleType) -> str | None:
    """The value of the source's last line, as an interactive interpreter shows it."""
    import ast

    tree = ast.parse(source, NAME)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, NAME, "exec", dont_inherit=True), module.__dict__)
        return None
    tree.body.pop()
    exec(compile(tree, NAME, "exec", dont_inherit=True), module.__dict__)
    shown = compile(ast.Expression(last.value), NAME, "eval", dont_inherit=True)
    value = eval(shown, module.__dict__)
    return None if value is None else repr(value)


def names_in(source: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """The names defined by source that the service sends beside the program."""
    found: dict[str, Any] = {"__name__": "heeler"} if names is None else names
    exec(compile(source, "heeler.py", "exec", dont_inherit=True), found)
    return found


def models_of(program: dict[str, Any], module: ModuleType) -> Any:
    """The classes of the arguments, if a schema describes them; the program finds them by name."""
    if not program["schema"]:
        return None
    modelling = names_in(program["modelling"])
    models = modelling["Models"](program["schema"])
    module.__dict__.update(modelling["names_of"](models))
    return models


def fit(function: Any, arguments: dict[str, Any], program: dict[str, Any], models: Any) -> Any:
    """The arguments as the annotations of the function say. Raises TypeError."""
    annotations = getattr(getattr(function, "__wrapped__", function), "__annotations__", {})
    odd = [name for name, value in arguments.items() if type(value) is not annotations.get(name)]
    if not models and all(name == "agent_state" or name not in annotations for name in odd):
        return arguments
    fitting = names_in(program["fitting"])
    kinds = models.root.__annotations__ if models else {}
    names = fitting["parameters"](function)
    if models and len(names) == 1 and names[0] not in kinds:
        agent = {name: arguments.pop(name) for name in ["agent_state"] if name in arguments}
        arguments, kinds = {names[0]: arguments, **agent}, {names[0]: models.root}
    return fitting["fit_arguments"](function, arguments, kinds)


def call_function(module: ModuleType, program: dict[str, Any], models: Any) -> Any:
    """The value that the function returns, awaited if it is async; None without a function."""
    if not program["function"]:
        return None
    function = getattr(module, program["function"], None)
    if not callable(function):
        raise NameError(f"The code defines no function {program['function']!r}")
    value = function(**fit(function, program["arguments"], program, models))
    if hasattr(value, "__await__"):
        import asyncio  # here, for it takes longer than most tools

        async def awaited() -> Any:
            return await value

        value = asyncio.run(awaited())
    return value


def run_other(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """Execute another interpreter, and wait for it."""
    environment = {**os.environ, **environment}
    child = os.posix_spawn(command[0], command, environment, setsigdef=IGNORED_BY_PYTHON)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 0:
        return {"status": "success", "value": None}
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit status {code}"
    return {"status": "error", "reason": f"The program {how}"}


def run_shell(program: dict[str, Any]) -> dict[str, Any]:
    """Execute a script by `sh`. It has no name by which something else could change it."""
    arguments = {SHELL_ARGUMENTS: json.dumps(program["arguments"])}
    script = os.open(os.environ["TMPDIR"], os.O_TMPFILE | os.O_RDWR, 0o600)
    os.dup2(script, SCRIPT, inheritable=True)
    os.close(script)
    with open(SCRIPT, "w", encoding="utf-8", errors="replace", closefd=False) as file:
        file.write(program["source"])
    return run_other(["/bin/sh", "-c", f". /dev/fd/{SCRIPT}", "sh"], arguments)


def run_javascript(program: dict[str, Any]) -> dict[str, Any]:
    """Execute a script by Node; its function gets the arguments as one object. One with types is a
    module, and Node leaves the types out."""
    typed = program["language"] == "typescript"
    script = write("tool.mts" if typed else "tool.cjs", program["source"])
    flags = ["--experimental-strip-types", "--no-warnings"] if typed else []
    heap = max(16, program["limits"]["memory_bytes"] * 3 // 4 >> 20)
    result = os.path.join(os.environ["TMPDIR"], "result.json")
    call = {name: program[name] for name in ("function", "arguments")} | {"result": result}
    command = [program["node"], f"--max-old-space-size={heap}", *flags, script]
    outcome = run_other(command, {"PROGRAM": json.dumps(call)})
    if outcome["status"] == "success" and os.path.exists(result):
        with open(result, encoding="utf-8", errors="replace") as file:
            outcome["value"] = json.loads(file.read(program["result_bytes_max"] + 1))
    return outcome


def write(name: str, text: str) -> str:
    """The path of a file beside the program."""
    path = os.path.join(os.environ["TMPDIR"], name)
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return path


RUNNERS = {
    "python": run_python,
    "shell": run_shell,
    "javascript": run_javascript,
    "typescript": run_javascript,
}


def receive() -> dict[str, Any]:
    """Read the next program from the input."""
    size = int.from_bytes(read_exactly(LENGTH_BYTES), "big")
    program: dict[str, Any] = json.loads(read_exactly(size))
    return program


def empty_stdin() -> None:
    """Nobody can be asked any more."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def prepare(program: dict[str, Any]) -> None:
    """Everything that must be so before the first line of the program."""
    scratch = os.getcwd()
    folder = program["folder"] or scratch
    os.environ.clear()
    os.environ.update({"PATH": PATH, "HOME": folder, "TMPDIR": scratch, "LANG": "C.UTF-8"})
    import_from(program.get("packages", ""))
    os.environ.update(program["environment"])
    os.chdir(folder)
    os.set_inheritable(RESULT, False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    os.nice(LESS_IMPORTANT)
    limit(program["limits"], program["language"])


def import_from(packages: str) -> None:
    """Let this program, and the Pythons that it starts, use what is installed in a folder."""
    if packages:
        sys.path.append(packages)
        os.environ.update({"PYTHONPATH": packages, "PATH": f"{PATH}:{packages}/bin"})


def be_first_to_go() -> None:
    """When the machine has no memory left, this process pays, not a service."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return


def become(program: dict[str, Any]) -> None:
    """Turn into a program that was listed, with its stdin, stdout and stderr."""
    prepare(program)
    for number in IGNORED_BY_PYTHON:
        ctypes.CDLL(None).signal(number, 0)
    os.execve(program["argv"][0], program["argv"], os.environ)


def main() -> None:
    """Wait for programs, execute them, report how they ended."""
    be_first_to_go()
    rules = json.loads(sys.argv[1])
    rules["write"].append(os.getcwd())
    locked = lock_files(rules["read"], rules["write"])
    os.write(RESULT, b"L" if locked else b"R")
    program = receive()
    if "argv" in program:
        become(program)
    if program["stays"]:
        names_in(program["stays"], dict(globals()))["stay"](rules, locked)
    execute(program)


def execute(program: dict[str, Any]) -> None:
    """Run a program, tell what came of it, and end."""
    if program["prelude"]:
        os.dup2(0, REPLIES, inheritable=False)
    empty_stdin()
    prepare(program)
    outcome = RUNNERS[program["language"]](program)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    try:
        tell(outcome, program["result_bytes_max"])
    except MemoryError:
        write_frame(NO_MEMORY)
    os._exit(0)


main()

"""Packages of tools: installed once from an index, and imported in the sandbox, nowhere else."""

# ruff: noqa: ASYNC240 (files of tests are small)

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from libs.bus.clock_and_ids import SystemClock
from services.tools.adapters.package_folders import COMPLETE, PackageFolders
from services.tools.adapters.package_installer import PackageIndex, PipInstaller
from services.tools.adapters.package_proxy import PackageProxy
from services.tools.adapters.process_sandbox import CONFINED, ProcessSandbox
from services.tools.domain.package_requirements import PackageRules
from services.tools.engine.package_environments import Installed, PackageEnvironments, Wanted
from services.tools.sandbox.ports import Program
from tests.wheels import wheel


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    wheel(folder, "greeting", "1.0")
    wheel(folder, "greeting", "2.0")
    wheel(folder, "polite", "1.0", needs="greeting==1.0", code="from greeting import hello\n")
    return folder


def environments(
    root: Path, index: Path, *, rules: PackageRules | None = None, bytes_max: int = 1 << 30
) -> PackageEnvironments:
    folders = PackageFolders(str(root), bytes_max)
    folders.prepare()
    installer = PipInstaller(PackageIndex(str(index)))
    return PackageEnvironments(folders, installer, rules or PackageRules(), SystemClock())


@asynccontextmanager
async def sandboxes(packages: Path) -> AsyncIterator[ProcessSandbox]:
    sandbox = ProcessSandbox(CONFINED, packages=str(packages), idle_min=0, idle_max=1)
    await sandbox.start()
    if sandbox.refusal:
        pytest.skip(sandbox.refusal)
    try:
        yield sandbox
    finally:
        await sandbox.close()


def wants(*packages: str, org: str = "org-1", generation: int = 0) -> Wanted:
    split = [package.partition("==") for package in packages]
    return Wanted(org, [(name, version or None) for name, _, version in split], (), generation)


async def folder_of(there: PackageEnvironments, wanted: Wanted) -> str:
    found = await there.provide(wanted, 60.0)
    assert isinstance(found, Installed), found
    return found.folder


async def test_a_tool_imports_what_it_asked_for_and_cannot_change_it(
    tmp_path: Path, index: Path
) -> None:
    """TOOL-21: each set of packages is an environment of its own, read-only in the sandbox."""
    root = tmp_path / "packages"
    there = environments(root, index)
    async with sandboxes(root) as sandbox:
        first = await folder_of(there, wants("greeting==1.0"))
        second = await folder_of(there, wants("greeting"))
        for folder, version in ((first, "1.0"), (second, "2.0")):
            source = "import greeting\ndef greet(who): return greeting.hello(who)"
            program = Program("python", source, "greet", {"who": "Ada"}, packages=folder)
            outcome = await sandbox.run(program)
            assert (outcome.status, outcome.value) == ("success", f"{version} greets Ada"), outcome
        writes = "open('/packages/greeting/__init__.py', 'a').write('x')"
        outcome = await sandbox.run(Program("python", writes, packages=first))
        assert outcome.status == "error", outcome
        assert "Permission denied" in outcome.reason or "Read-only" in outcome.reason
        outcome = await sandbox.run(Program("python", "import greeting"))
        assert "No module named 'greeting'" in outcome.reason
        child = (
            "import subprocess, sys\n"
            "says = 'import greeting; print(greeting.VERSION)'\n"
            "subprocess.run([sys.executable, '-c', says])"
        )
        outcome = await sandbox.run(Program("python", child, packages=first))
        assert outcome.stdout.strip() == "1.0", outcome


async def test_what_is_installed_is_used_again_also_after_a_restart(
    tmp_path: Path, index: Path
) -> None:
    root = tmp_path / "packages"
    there = environments(root, index)
    many = await asyncio.gather(
        *(there.provide(wants("polite", org=f"org-{n % 2}"), 60.0) for n in range(6))
    )
    folders = {installed.folder for installed in many if isinstance(installed, Installed)}
    assert len(folders) == 1, many
    assert [path.name for path in root.iterdir()] == [Path(folders.pop()).name]
    for path in index.iterdir():
        path.unlink()
    again = environments(root, index)
    found = await again.provide(wants("polite"), 60.0)
    assert isinstance(found, Installed)
    assert found.seconds == 0.0
    names = {path.name for path in Path(found.folder).glob("*.dist-info")}
    assert names == {"polite-1.0.dist-info", "greeting-1.0.dist-info"}


async def test_what_is_damaged_or_wanted_anew_is_installed_anew(
    tmp_path: Path, index: Path
) -> None:
    root = tmp_path / "packages"
    folder = await folder_of(environments(root, index), wants("greeting"))
    Path(folder, "greeting", "__init__.py").write_text("")
    assert await folder_of(environments(root, index), wants("greeting")) == folder
    assert "greets" in Path(folder, "greeting", "__init__.py").read_text()
    Path(folder, COMPLETE).unlink()
    there = environments(root, index)
    assert await folder_of(there, wants("greeting")) == folder
    anew = await folder_of(there, wants("greeting", generation=1))
    assert anew != folder


async def test_what_cannot_be_installed_is_said_and_not_tried_each_time(
    tmp_path: Path, index: Path
) -> None:
    root = tmp_path / "packages"
    there = environments(root, index)
    for wanted in ("no-such-thing", "greeting==9.9"):
        said = await there.provide(wants(wanted), 60.0)
        assert isinstance(said, str)
        assert "Could not find a version that satisfies the requirement" in said
        assert "pip_requirements" in said
    wheel(index, "no_such_thing", "1.0")
    assert "Could not find" in str(await there.provide(wants("no-such-thing"), 60.0))
    assert list(root.iterdir()) == []
    assert isinstance(
        await environments(root, index).provide(wants("no-such-thing"), 60), Installed
    )


async def test_a_call_that_cannot_wait_is_told_and_the_next_one_finds_them(
    tmp_path: Path, index: Path
) -> None:
    there = environments(tmp_path / "packages", index)
    said = await there.provide(wants("greeting"), 0.01)
    assert "still being installed" in str(said)
    assert isinstance(await there.provide(wants("greeting"), 60.0), Installed)


async def test_what_was_not_used_for_longest_goes(tmp_path: Path, index: Path) -> None:
    root = tmp_path / "packages"
    first = await folder_of(environments(root, index), wants("greeting==1.0"))
    size = sum(path.stat().st_size for path in Path(first).rglob("*") if path.is_file())
    small = environments(root, index, bytes_max=int(size * 1.5))
    said = await small.provide(wants("greeting==2.0"), 60.0)
    assert "no room" in str(said)
    os.utime(Path(first, COMPLETE), (1, 1))
    second = await folder_of(
        environments(root, index, bytes_max=int(size * 1.5)), wants("greeting")
    )
    assert [str(path) for path in root.iterdir()] == [second]


async def test_the_operator_says_what_tools_may_have(tmp_path: Path, index: Path) -> None:
    root = tmp_path / "packages"
    only = environments(root, index, rules=PackageRules(allowed=frozenset({"polite"})))
    assert "not among" in only.refusal_of([("greeting", None)])
    assert only.refusal_of([("Polite", None)]) == ""
    assert isinstance(await only.provide(wants("polite"), 60.0), Installed)
    without = environments(root, index, rules=PackageRules(denied=frozenset({"greeting"})))
    assert "may not have" in without.refusal_of([("greeting", "1.0")])
    said = await without.provide(wants("polite", generation=1), 60.0)
    assert "greeting is a package that tools may not have" in str(said)
    off = environments(root, index, rules=PackageRules(on=False))
    assert "HEELER_PACKAGES=0" in off.refusal_of([("polite", None)])


@pytest.mark.parametrize(
    "name",
    ["--index-url=https://evil", "-r/etc/passwd", "x @ https://evil/x.whl", "../x", "a b", ""],
)
def test_a_requirement_is_a_name_and_nothing_else(tmp_path: Path, name: str) -> None:
    there = environments(tmp_path / "packages", tmp_path)
    assert "no name of a package" in there.refusal_of([(name, None)])
    assert "no version" in there.refusal_of([("numpy", f"1.0 {name} ; x")])


async def test_the_way_out_leads_to_the_index_alone() -> None:
    """An installer is let to no other host and no other port."""
    for asked in ("evil.example.com:443", "pypi.org:80", "169.254.169.254:443", "localhost:443"):
        proxy = PackageProxy(frozenset({"pypi.org"}))
        async with proxy.serve() as address:
            port = int(address.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"CONNECT {asked} HTTP/1.1\r\n\r\n".encode())
            assert (await reader.read()).startswith(b"HTTP/1.1 403"), asked
            writer.close()
        assert proxy.refused == {asked.rpartition(":")[0]}

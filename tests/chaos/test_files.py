"""FILES: kill -9 in uploads, in the reading and embedding of files, and in re-embedding."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_files_and_archives_are_whole_whoever_dies(proves: Proves) -> None:
    verdict = await proves("FILES")

    assert verdict.kills == 5

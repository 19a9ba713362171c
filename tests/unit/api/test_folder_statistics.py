"""What is said of all folders, in an answer that is bounded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from litestar.datastructures import MultiDict

from services.api.http.callers import CALLER, THE_ONLY_CALLER
from services.api.http.error_responses import Problem
from services.api.resources.memory import folders


class Statistics:
    """So many files, of which nobody may list too many."""

    def __init__(self, files: int) -> None:
        self.files = files
        self.listed = False

    async def statistics(self, org: str, *, detailed: bool) -> bytes:
        self.listed |= detailed
        return b'{"total_sources": 1, "total_files": %d}' % self.files


@pytest.mark.parametrize("detailed", [False, True])
@pytest.mark.parametrize("files", [1, folders.DETAILED_MAX])
async def test_more_files_than_fit_into_an_answer_are_counted_and_not_listed(
    monkeypatch: pytest.MonkeyPatch, files: int, detailed: bool
) -> None:
    queries = Statistics(files)
    monkeypatch.setattr(folders, "api_of", lambda _: SimpleNamespace(folders=queries))
    asked = MultiDict([("include_detailed_per_source_metadata", str(detailed).lower())])
    state = {CALLER: THE_ONLY_CALLER}
    request: Any = SimpleNamespace(query_params=asked, scope={"state": state})
    answer: Any = folders.retrieve_folder_statistics.fn
    if detailed and files > 1:
        with pytest.raises(Problem) as refused:
            await answer(request)
        assert refused.value.status == 413
    else:
        assert (await answer(request)).status_code in (None, 200)
    assert queries.listed == (detailed and files == 1)

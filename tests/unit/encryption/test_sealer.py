"""What is sealed can be opened by who has the key, and by nobody else; and keys can be changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.embedded.encryption_keys import KEYS_FILE, open_encryption_keys
from deploy.embedded.settings import LaunchError
from libs.contracts.environment_parsing import MissingSetting, WrongSetting
from libs.contracts.sealed_text import SEALED, is_sealed
from libs.contracts.service_registry import ENCRYPTION_KEYS
from libs.encryption.sealer import CannotOpen, Sealer
from libs.encryption.sealing_keys import KEYS_MAX, new_key

SECRET = "hunter2 ключ \ud800 \x00"


def test_a_sealed_text_shows_nothing_and_is_opened_again() -> None:
    sealer = Sealer([new_key()])
    first, second = sealer.seal(SECRET), sealer.seal(SECRET)
    assert is_sealed(first)
    assert first != second
    assert "hunter2" not in first
    assert sealer.open(first) == sealer.open(second) == SECRET


def test_what_looks_sealed_is_sealed_like_everything_else() -> None:
    """So a client that has seen a sealed text cannot have it opened by sending it."""
    sealer = Sealer([new_key()])
    seen = sealer.seal(SECRET)
    assert sealer.open(sealer.seal(seen)) == seen


def test_a_new_first_key_seals_and_the_older_ones_open() -> None:
    old, new = new_key(), new_key()
    sealed = Sealer([old]).seal(SECRET)
    both = Sealer([new, old])
    assert both.open(sealed) == SECRET
    assert Sealer([new]).open(both.seal(SECRET)) == SECRET


def test_without_its_key_it_stays_closed() -> None:
    sealed = Sealer([new_key()]).seal(SECRET)
    with pytest.raises(CannotOpen, match="no key in HEELER_ENCRYPTION_KEYS opens it"):
        Sealer([new_key()]).open(sealed)


@pytest.mark.parametrize("change", [-1, 20, len(SEALED) + 1])
def test_what_was_changed_stays_closed(change: int) -> None:
    sealer = Sealer([new_key()])
    sealed = sealer.seal(SECRET)
    other = "A" if sealed[change] != "A" else "B"
    place = change % len(sealed)
    with pytest.raises(CannotOpen):
        sealer.open(sealed[:place] + other + sealed[place + 1 :])


@pytest.mark.parametrize("text", ["", "hunter2", SEALED, f"{SEALED}é", "sealed"])
def test_what_is_not_sealed_is_not_opened(text: str) -> None:
    with pytest.raises(CannotOpen):
        Sealer([new_key()]).open(text)


@pytest.mark.parametrize(
    "keys",
    ["hunter2", "hunter2,", f"{new_key()},hunter2é", ",".join([new_key()] * (KEYS_MAX + 1))],
    ids=["no key", "one of none", "one that is none", "too many"],  # the same in every worker
)
def test_wrong_keys_are_refused_without_being_shown(keys: str) -> None:
    with pytest.raises(WrongSetting) as refused:
        Sealer.from_environment({ENCRYPTION_KEYS: keys})
    assert str(refused.value).startswith(f"{ENCRYPTION_KEYS} ")
    assert "hunter2" not in str(refused.value)


def test_keys_must_be_given() -> None:
    with pytest.raises(MissingSetting, match=f"{ENCRYPTION_KEYS} is not set"):
        Sealer.from_environment({ENCRYPTION_KEYS: ""})


def test_a_home_makes_its_key_once_for_its_owner_only(tmp_path: Path) -> None:
    keys = open_encryption_keys(tmp_path)
    file = tmp_path / KEYS_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert open_encryption_keys(tmp_path) == keys == file.read_text().strip()


def test_a_key_that_is_put_on_top_of_the_file_is_the_first(tmp_path: Path) -> None:
    old, new = open_encryption_keys(tmp_path), new_key()
    (tmp_path / KEYS_FILE).write_text(f"{new}\n{old}\n")
    assert open_encryption_keys(tmp_path) == f"{new},{old}"


@pytest.mark.parametrize("text", ["", "hunter2\n", "\xff"])
def test_a_damaged_file_of_keys_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / KEYS_FILE).write_text(text, encoding="latin-1")
    with pytest.raises(LaunchError, match="is damaged") as refused:
        open_encryption_keys(tmp_path)
    assert "hunter2" not in str(refused.value)


def test_a_digest_tells_contents_apart_for_those_who_have_the_keys() -> None:
    """S12: nobody can find a secret by trying what a request may have held."""
    old, new = new_key(), new_key()
    sealer = Sealer([old])
    assert sealer.keyed_digest(b"a", b"b") == sealer.keyed_digest(b"ab")
    assert sealer.keyed_digest(b"a") != sealer.keyed_digest(b"b")
    assert Sealer([new, old]).keyed_digest(b"a") == sealer.keyed_digest(b"a")
    assert Sealer([new]).keyed_digest(b"a") != sealer.keyed_digest(b"a")

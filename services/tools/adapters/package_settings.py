"""The environment of the packages of tools: where they are kept and come from, and which may be."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from libs.contracts.environment_parsing import HIDDEN, WrongSetting, whole_number
from libs.egress.address_guard import AddressGuard
from services.tools.adapters.package_installer import PackageIndex
from services.tools.domain.package_requirements import PackageRules, normalize_name

PACKAGES, PACKAGES_FOLDER, PACKAGES_MB = (
    f"HEELER_PACKAGES{part}" for part in ("", "_FOLDER", "_MB")
)
PACKAGES_ALLOWED, PACKAGES_DENIED = "HEELER_PACKAGES_ALLOWED", "HEELER_PACKAGES_DENIED"
PACKAGE_INDEX, PACKAGE_HOSTS = "HEELER_PACKAGE_INDEX", "HEELER_PACKAGE_HOSTS"
PACKAGES_MB_DEFAULT, PACKAGES_MB_MAX = 4_096, 1 << 20


@dataclass(frozen=True, slots=True)
class PackageSettings:
    """Where packages of tools are kept, up to how many bytes, where they come from, and which ones
    tools may have."""

    folder: str = ""
    bytes_max: int = PACKAGES_MB_DEFAULT << 20
    index: PackageIndex = field(default_factory=PackageIndex)
    rules: PackageRules = field(default_factory=PackageRules)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> PackageSettings:
        """HEELER_PACKAGES and all that begin so, HEELER_PACKAGE_INDEX, HEELER_PACKAGE_HOSTS. Raises
        WrongSetting."""
        on = environment.get(PACKAGES, "1")
        if on not in ("", "0", "1"):
            raise WrongSetting(f"{PACKAGES} is {on!r}: it must be 1, or 0 for none")
        megabytes = whole_number(
            environment, PACKAGES_MB, PACKAGES_MB_DEFAULT, most=PACKAGES_MB_MAX
        )
        allowed = environment.get(PACKAGES_ALLOWED)
        kept_in = environment.get(PACKAGES_FOLDER, "")
        if kept_in and not os.path.isabs(kept_in):
            raise WrongSetting(f"{PACKAGES_FOLDER} is {kept_in!r}: it must be the path from / on")
        return cls(
            kept_in.rstrip("/"),
            megabytes << 20,
            package_index(environment),
            PackageRules(
                on=on != "0",
                allowed=names(allowed) if allowed else None,
                denied=names(environment.get(PACKAGES_DENIED, "")),
            ),
        )


def package_index(environment: Mapping[str, str]) -> PackageIndex:
    """Where packages come from. Raises WrongSetting."""
    address = environment.get(PACKAGE_INDEX, "").removeprefix("file://")
    if address and not address.startswith(("https://", "/")):
        raise WrongSetting(
            f"{PACKAGE_INDEX} must begin with https://, or be a folder of wheels ({HIDDEN})"
        )
    hosts = AddressGuard.from_environment(PACKAGE_HOSTS, environment).allowed
    return PackageIndex(address, frozenset(host.partition(":")[0] for host in hosts))


def names(text: str) -> frozenset[str]:
    """The names of packages in a list with commas between them."""
    return frozenset(normalize_name(name.strip()) for name in text.split(",") if name.strip())

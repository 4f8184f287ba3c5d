# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The Python of the device plugin's environment, and the packages that provide one."""

from __future__ import annotations

import typing as t

from .._base import distributions
from .._base.errors import InputError, NodeError
from .._base.steps import Step

# The list of libraries has wheels for these.
OLDEST, NEWEST = 10, 14
EXPECTED = f"Python from 3.{OLDEST} to 3.{NEWEST}"
PROGRAMS = ("python3", *(f"python3.{minor}" for minor in range(NEWEST, OLDEST - 1, -1)))
VENV = "python3-venv"  # what Debian and Ubuntu leave out of their Python
VARIABLES = {"python": "device_plugin_python", "install": "device_plugin_install_python"}


class Family(t.NamedTuple):
    """Systems with packages of newer Pythons: their package manager, the packages' name, and how to enable them."""

    manager: str
    package: str
    place: str


# RHEL 8 and 9: python3.11 and python3.12 in AppStream, docs.redhat.com, Installing and using dynamic programming
# languages, 1.1. Amazon Linux 2023: python3.11 to python3.14, docs.aws.amazon.com, Python in AL2023. SLES 15 SP4 and
# later: python311 in the module Python 3, linuxpunx.com (of SUSE's), 25 March 2024. Debian and Ubuntu have one each.
RHEL = Family("rhel", "python3.{}", "enable the repository that has them, AppStream in RHEL")
SUSE = Family("suse", "python3{}", "enable SUSE's module Python 3 (SUSEConnect)")
FAMILIES = {family.manager: family for family in (RHEL, SUSE)}


def family(release: t.Mapping[str, str]) -> t.Optional[Family]:
    """Return the family of a system by its /etc/os-release, None if it has only one Python."""
    return FAMILIES.get(distributions.family(release))


def packages(family: Family, named: t.Optional[str]) -> t.List[str]:
    """Return the packages that may bring a Python, the newest first, or that of a program that is named."""
    minors = range(NEWEST, OLDEST - 1, -1)
    program = (named or "").rpartition("/")[2]
    return [family.package.format(minor) for minor in minors if program in ("", f"python3.{minor}")]


class Missing(t.NamedTuple):
    """A node without a usable Python: its system, the version of its python3, and the package that is offered."""

    system: str = ""
    python3: str = ""
    family: t.Optional[Family] = None
    offered: str = ""


NOTHING = Missing()


def steps(missing: Missing, named: t.Optional[str], *, install: bool) -> t.List[Step]:
    """Return the steps that install a Python.

    Raises:
        NodeError: if no package has one, or the user has to allow it.
    """
    if install and missing.offered:
        manager = missing.family.manager if missing.family else ""
        params = {"family": manager, "package": missing.offered}
        return [Step("python", f"install the package {missing.offered}", params)]
    if named:
        error: NodeError = InputError.of("python", named, f"a {EXPECTED} that is on the node")
    else:
        has = missing.python3 or "none"
        error = NodeError(f"no {EXPECTED} on the node", cause=f"python3 is {has}")
    error.hint = _hint(missing)
    raise error


def _hint(missing: Missing) -> str:
    named = f"name one in python ({VARIABLES['python']})"
    if missing.offered:
        return f"set install_python ({VARIABLES['install']}) to true, which installs {missing.offered}, or {named}"
    if missing.family:
        return f"{missing.family.place}, or {named}"
    system = f"{missing.system or 'the system'}, which has no other in its archive"
    return f"upgrade {system}, or install one yourself and {named}"

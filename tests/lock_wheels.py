# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Write the hash of every wheel that pip could choose into a requirements file, or check that they are there.

The index is pip's own: that of its configuration, or its default. Versions and markers stay as they are; where a
package is wanting that another needs, that is said.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from tests.lock_closure import Place, applies, needs_of, pinned, unmet

MACHINES = ("x86_64", "aarch64")
OLDEST_GLIBC, NEWEST_GLIBC = 5, 60
JSON = "application/vnd.pypi.simple.v1+json"


@dataclass(frozen=True)
class Wheel:
    """What the index tells of a wheel."""

    url: str
    digest: str
    tags: frozenset[Tag]
    pythons: SpecifierSet

    def fits(self, place: Place, loadable: frozenset[Tag]) -> bool:
        """Return whether pip could choose it for a place."""
        return bool(self.tags & loadable) and self.pythons.contains(f"3.{place[0]}.0")


def platforms(machine: str) -> list[str]:
    """Return the platform tags of a machine with glibc."""
    named = [f"manylinux_2_{minor}" for minor in range(NEWEST_GLIBC, OLDEST_GLIBC - 1, -1)]
    named += ["manylinux2014", "manylinux2010", "manylinux1", "linux"]
    return [f"{name}_{machine}" for name in named]


def tags(minor: int, machine: str) -> frozenset[Tag]:
    """Return what a CPython on such a machine can load."""
    version, own = (3, minor), platforms(machine)
    native = cpython_tags(version, abis=[f"cp3{minor}"], platforms=own)
    return frozenset([*native, *compatible_tags(version, f"cp3{minor}", own)])


def logical(text: str) -> Iterator[str]:
    """Return the requirements of a file, each on one line and without its hashes."""
    for line in text.replace("\\\n", " ").splitlines():
        words = re.sub(r"\s--hash=\S+", "", line).strip()
        if words and not words.startswith("#"):
            yield words


def head(text: str) -> str:
    """Return the comments that a file begins with."""
    return re.match(r"(?:#.*\n)*", text).group()  # type: ignore[union-attr]


def index() -> str:
    """Return the address of pip's index."""
    ask = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    found = subprocess.run(ask, check=False, capture_output=True, text=True).stdout.strip()
    if found:
        return found
    from pip._internal.models.index import PyPI

    return str(PyPI.simple_url)


def wheels(address: str, requirement: Requirement, *, builds: bool) -> list[Wheel]:
    """Return a version's wheels; exit where one is a rebuild, which no node takes, unless ``builds`` lists them too."""
    url = f"{address.rstrip('/')}/{canonicalize_name(requirement.name)}/"
    request = urllib.request.Request(url, headers={"Accept": JSON})
    with urllib.request.urlopen(request, timeout=120) as answer:
        files = json.load(answer)["files"]
    found = []
    for one in files:
        name = one["filename"]
        try:
            _project, version, build, own = parse_wheel_filename(name)
        except InvalidWheelFilename:
            continue
        if version == Version(pinned(requirement)):
            if build and not builds:
                sys.exit(f"{name}: a wheel with a build tag can't be listed")
            pythons = SpecifierSet(one.get("requires-python") or "")
            where = urllib.parse.urljoin(url, one["url"])
            found.append(Wheel(where, one["hashes"]["sha256"], own, pythons))
    return found


def fitting(
    address: str,
    requirement: Requirement,
    places: dict[Place, frozenset[Tag]],
    *,
    builds: bool,
) -> list[Wheel]:
    """Return the wheels that are for one of the places; exit where a place has none."""
    wanted = [(one, own) for one, own in places.items() if applies(requirement, one)]
    found = wheels(address, requirement, builds=builds)
    for place, own in wanted:
        if not any(one.fits(place, own) for one in found):
            sys.exit(f"{requirement}: no wheel for Python 3.{place[0]} on {place[1]}")
    return [one for one in found if any(one.fits(place, own) for place, own in wanted)]


def main() -> None:
    """Lock one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    parser.add_argument("--builds", action="store_true", help="list wheels with a build tag too")
    parser.add_argument("--pythons", type=int, nargs=2, metavar=("FROM", "TO"), required=True)
    options = parser.parse_args()
    first, last = options.pythons
    places = {(n, one): tags(n, one) for n in range(first, last + 1) for one in MACHINES}
    before, address = options.file.read_text(), index()
    text, listed = head(before), {}
    for line in logical(before):
        requirement = Requirement(line)
        try:
            found = fitting(address, requirement, places, builds=options.builds)
            listed[requirement] = needs_of(found[0].url, found[0].digest)
        except (urllib.error.URLError, json.JSONDecodeError) as error:
            sys.exit(f"{line}: the index does not tell its wheels: {error}")
        digests = sorted({one.digest for one in found})
        text += " \\\n".join([line, *(f"    --hash=sha256:{one}" for one in digests)]) + "\n"
    if wanting := sorted(set(unmet(listed, places))):
        sys.exit("\n".join(f"{options.file}: {one}" for one in wanting))
    if options.check and text != before:
        sys.exit(
            f"{options.file}: not as the index has it. Next step: make lock, and look at the difference"
        )
    if not options.check:
        options.file.write_text(text)


if __name__ == "__main__":
    main()

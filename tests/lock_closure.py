# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a list of requirements holds all that its packages need, on each Python and machine."""

from __future__ import annotations

import email
import hashlib
import io
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

Place = tuple[int, str]


def environment(place: Place) -> dict[str, str]:
    """Return what markers are compared with on a Linux machine."""
    minor, machine = place
    return {
        "extra": "",
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"3.{minor}.0",
        "python_version": f"3.{minor}",
        "sys_platform": "linux",
    }


def applies(requirement: Requirement, place: Place) -> bool:
    """Return whether a requirement is for a place."""
    return requirement.marker is None or requirement.marker.evaluate(environment(place))


def pinned(requirement: Requirement) -> str:
    """Return the one version that a requirement allows."""
    (specifier,) = requirement.specifier
    return specifier.version


def unmet(
    listed: Mapping[Requirement, Iterable[Requirement]], places: Iterable[Place]
) -> Iterator[str]:
    """Say what is wanting, of a list and of what each of its packages needs."""
    for place in places:
        here = [one for one in listed if applies(one, place)]
        versions = {canonicalize_name(one.name): pinned(one) for one in here}
        where = f"on Python 3.{place[0]}, {place[1]}"
        if len(versions) < len(here):
            yield f"{where}: a package is listed twice"
        for one in here:
            for needed in listed[one]:
                if not applies(needed, place):
                    continue
                version = versions.get(canonicalize_name(needed.name))
                if version is None or not needed.specifier.contains(version, prereleases=True):
                    yield f"{where}: {one.name} needs {needed}, and {version or 'nothing'} is listed"


def needs_of(url: str, digest: str) -> list[Requirement]:
    """Return what a wheel needs, after its content was compared with the index's hash."""
    with urllib.request.urlopen(url, timeout=120) as answer:
        data = answer.read()
    if hashlib.sha256(data).hexdigest() != digest:
        raise SystemExit(
            f"{urllib.parse.urlsplit(url).path}: its content is not what the index tells"
        )
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        (name,) = [one for one in names if one.count("/") == 1]  # some carry others within
        found = email.message_from_bytes(archive.read(name)).get_all("Requires-Dist")
    return [Requirement(one) for one in found or ()]

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a bundle is to be, and the steps to it, or what is wrong with one."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .._base.errors import InputError, NodeError
from .._base.steps import Plan, Step
from .._device_plugin.python import NEWEST, OLDEST
from .manifest import Files, Manifest, differences, extra

PYTHONS = tuple(f"3.{minor}" for minor in range(OLDEST, NEWEST + 1))
MACHINES = ("x86_64", "aarch64")
# By their names, the folder of the wheels of each list, and the list in the collection.
LISTS: t.Mapping[str, t.Tuple[str, str]] = {
    "requirements": ("wheels", "files/gpu_plugin/requirements.txt"),
    "webhook_requirements": ("webhook-wheels", "files/gpu_cluster/requirements.txt"),
}
SHA256 = re.compile(r"[0-9a-f]{64}")
NAMED = 5  # of files that differ
AGAIN = "fetch the bundle again from where it was made, and use nothing of this one"


@dataclasses.dataclass(frozen=True)
class DesiredBundle:
    """What the user asks for. ``images`` are names in an engine's store, or paths of archives."""

    state: str
    path: str
    pythons: t.Tuple[str, ...]
    machines: t.Tuple[str, ...]
    webhook: bool
    images: t.Tuple[str, ...]
    driver_version: str
    sha256: str


def parse_desired(params: t.Mapping[str, t.Any]) -> DesiredBundle:
    """Return the options as values.

    Raises:
        InputError: if one is not valid.
    """
    path = params["path"]
    if not path or path == "/":
        raise InputError.of("path", path, "a folder on this machine, which is made for the bundle")
    digest = params["sha256"].strip().lower()
    if digest and not SHA256.fullmatch(digest):
        raise InputError.of("sha256", params["sha256"], "64 hexadecimal digits")
    return DesiredBundle(
        params["state"],
        path.rstrip("/"),
        _several("pythons", params["pythons"], PYTHONS, " in quotes, as YAML reads 3.10 as 3.1"),
        _several("architectures", params["architectures"], MACHINES),
        params["webhook"],
        tuple(dict.fromkeys(params["images"])),
        params["driver_version"],
        digest,
    )


def _several(
    key: str, values: t.Sequence[str], known: t.Sequence[str], mind: str = ""
) -> t.Tuple[str, ...]:
    """Return values in their known order, each once."""
    expected = f"one of {', '.join(known)}{mind and ','}{mind}"
    for at, value in enumerate(values):
        if value not in known:
            raise InputError.of(f"{key}[{at}]", value, expected)
    if not values:
        raise InputError.of(key, list(values), expected)
    return tuple(value for value in known if value in values)


@dataclasses.dataclass(frozen=True)
class BundleState:
    """What there is. ``made_of`` is what a bundle made now would be made of; ``sha256`` that of SHA256SUMS.

    ``refused`` says of each wheel why the daemon's list does not allow it.
    """

    manifest: t.Optional[Manifest]
    files: Files
    made_of: t.Mapping[str, t.Any]
    sha256: str = ""
    refused: t.Tuple[str, ...] = ()


def plan(observed: BundleState, desired: DesiredBundle) -> Plan:
    """Return the plan.

    Raises:
        NodeError: if the folder has files that are not the bundle's, as a bundle is made anew as a whole; or if it is
            to be verified and differs.
    """
    if desired.state == "verified":
        return _verified(observed, desired)
    manifest, files = observed.manifest, observed.files
    foreign = extra(manifest, files) if manifest else list(files)
    if foreign:
        raise NodeError(
            f"path: {desired.path!r} has files that are not of a bundle: {', '.join(sorted(foreign)[:NAMED])}",
            hint="remove them, or name another folder",
            key="path",
        )
    before = manifest.made_of if manifest else None
    problems = differences(manifest, files) if manifest else []
    if before == observed.made_of and not problems:
        return Plan((), before, before)
    return Plan(tuple(_steps(observed, desired, problems)), before, observed.made_of)


def in_words(problems: t.Sequence[str]) -> str:
    """Return the first of the problems, and how many more there are."""
    more = len(problems) - NAMED
    return "; ".join(problems[:NAMED]) + (f"; and {more} more" if more > 0 else "")


def _verified(observed: BundleState, desired: DesiredBundle) -> Plan:
    """Refuse a bundle that is not as it was made, and one whose wheels this collection would not install."""
    if observed.manifest is None:
        raise NodeError(
            f"path: {desired.path!r} is no bundle: it has no bundle.json",
            hint="name the folder of a bundle",
            key="path",
        )
    if desired.sha256 and desired.sha256 != observed.sha256:
        raise NodeError(
            f"the bundle {desired.path} is not the one that was asked for: the SHA-256 of its SHA256SUMS is"
            f" {observed.sha256 or 'none'}",
            cause=f"expected {desired.sha256}",
            hint=AGAIN,
            key="sha256",
        )
    problems = differences(observed.manifest, observed.files)
    if problems:
        raise NodeError(
            f"the bundle {desired.path} is not as it was made", cause=in_words(problems), hint=AGAIN
        )
    made_of = observed.manifest.made_of
    ours, theirs = observed.made_of["collection"], made_of.get("collection") or {}
    if not all(made_of.get(name) in (None, observed.made_of[name]) for name in LISTS):
        raise NodeError(
            f"the bundle {desired.path} is for {theirs.get('name')} {theirs.get('version')}, whose list of wheels"
            f" is another than that of {ours['version']}, which runs here",
            hint="install the collection that the bundle holds, and verify again",
        )
    if observed.refused:
        raise NodeError(
            f"the bundle {desired.path} has what is not installed",
            cause=in_words(observed.refused),
            hint=AGAIN,
        )
    return Plan((), made_of, made_of)


def _steps(
    observed: BundleState, desired: DesiredBundle, problems: t.Sequence[str]
) -> t.Iterator[Step]:
    why = f", as {in_words(problems)}" if problems else ""
    for python in desired.pythons:
        for machine in desired.machines:
            params = {"python": python, "machine": machine}
            text = f"collect the wheels for Python {python} on {machine}{why}"
            yield Step("wheels", text, params)
            why = ""
    about = observed.made_of["collection"]
    yield Step("collections", f"pack {about['name']} {about['version']}")
    for file, image in observed.made_of["images"].items():
        name = image["name"]
        yield Step("image", f"save {name} as {file}", {"file": file, "name": name})
    yield Step("packages", "list the packages that the distributions' mirrors must have")
    summary = f"put all of it in place as {desired.path}"
    yield Step("publish", f"write the SHA-256 of each file, and {summary}")

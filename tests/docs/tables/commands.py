# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The commands of the pages: the playbooks, variables, tags, modules and options that they name."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from typing import Any

import yaml

from tests.docs.options import tables
from tests.docs.tables import examples, pages

ANSIBLE = ("ansible-playbook", "ansible")
OURS = re.compile(r"^gpu\.node\.(\w+)$")


def words(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of Ansible in a page's consoles and in code within its lines."""
    consoles = [body for _indent, kind, body in pages.FENCED.findall(text) if kind == "console"]
    typed = "\n".join(consoles).replace("\\\n", " ").splitlines()
    lines = [one for one in typed if one.startswith(("$ ansible", "# ansible", "> ansible"))]
    plain = pages.FENCED.sub("", text).replace("`... gpu.node.", "`ansible-playbook gpu.node.")
    plain = plain.replace("`... -m gpu.node.", "`ansible gpu_nodes -m gpu.node.")
    lines += re.findall(r"`((?:ansible-playbook|ansible) [^`\n]+)`", plain)
    for line in lines:
        found = shlex.split(re.sub("^[$#>] ", "", line), comments=True)
        if found[:1] and found[0] in ANSIBLE and any(OURS.match(one) for one in found):
            yield found


def after(found: list[str], *options: str) -> list[str]:
    """Return what follows any of these options."""
    return [found[n + 1] for n, one in enumerate(found[:-1]) if one in options]


def variables(found: list[str]) -> set[str]:
    """Return the names of the variables that a command sets."""
    given = after(found, "-e", "--extra-vars")
    whole = [yaml.safe_load(one) for one in given if one.startswith("{")]
    pairs = [
        pair.partition("=")[0] for one in given if not one.startswith("{") for pair in one.split()
    ]
    return {*pairs, *(name for one in whole for name in one)}


@functools.cache
def tags() -> set[str]:
    """Return the tags of the playbook that brings nodes up, and of the tasks that it includes."""
    folder = pages.ROOT / "playbooks"
    files = [folder / "gpu_nodes.yml", *sorted(folder.glob("tasks/*.yml"))]
    return {one for path in files for one in tagged(yaml.safe_load(path.read_text()))}


def tagged(data: Any) -> Iterator[str]:
    """Yield the tags of plays, blocks and tasks."""
    if isinstance(data, dict):
        some = data.get("tags", [])
        yield from [some] if isinstance(some, str) else some
        yield from (tag for key, value in data.items() if key != "tags" for tag in tagged(value))
    elif isinstance(data, list):
        yield from (tag for one in data for tag in tagged(one))


def options(module: str) -> set[str]:
    """Return the options of a module."""
    return {name for one in tables.tables() for name in one.modules.get(module, ())}


def wrong(found: list[str]) -> list[str]:
    """Return what a command names that the collection does not have."""
    names = [match[1] for one in found if (match := OURS.match(one))]
    folder = "playbooks" if found[0] == "ansible-playbook" else "plugins/modules"
    suffix = "yml" if folder == "playbooks" else "py"
    told = [one for one in names if not (pages.ROOT / folder / f"{one}.{suffix}").exists()]
    told += sorted(variables(found) - set(examples.SPECS) - {"ansible_become"})
    asked = ",".join(after(found, "--tags", "--skip-tags"))
    told += sorted(set(filter(None, asked.split(","))) - tags())
    if folder == "plugins/modules" and not told:
        given = {pair.partition("=")[0] for one in after(found, "-a") for pair in one.split()}
        told += sorted(given - options(names[0]))
    return told

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The names of other tools' variables, read from a checkout of theirs: ``python upstream.py PAGE CHECKOUT``.

Writes PAGE.names.yml beside the page's own mapping, with the release and the commit that they were read at.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

LICENCE = "# Copyright (c) 2026, the gpu.node authors\n# SPDX-License-Identifier: Apache-2.0\n"
DATA = Path(__file__).resolve().parent / "migration"
STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(
    r"^\s*(?:\w+\s+)?([\w.*\[\]]+)\s+`[^`]*?\b(?:json|yaml):\"([^\",]*)(,inline)?", re.M
)
EMBEDDED = re.compile(r"^\s*(\w+)$", re.MULTILINE)
VARIABLE = re.compile(r"^#? ?([a-z_][a-z_0-9]*):(?=\s|$)", re.MULTILINE)


def leaves(data: Any, at: str = "") -> Iterable[str]:
    """Yield the paths of what Helm values hold; an empty mapping is a value."""
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from leaves(value, f"{at}.{key}" if at else str(key))
    elif at:
        yield at


def values(text: str) -> Iterable[str]:
    """Yield the names in a chart's values.yaml."""
    return leaves(yaml.safe_load(text))


def templates(text: str) -> Iterable[str]:
    """Yield the values that a chart's templates ask for, whether values.yaml names them or not."""
    return (one.rstrip(".") for one in re.findall(r"\.Values\.([A-Za-z][\w.-]*)", text))


def cli(text: str) -> Iterable[str]:
    """Yield flags, as ``--flag``, and variables of the environment of a Go command (urfave/cli)."""
    yield from (f"--{one}" for one in re.findall(r"\bName:\s+\"([a-z][\w-]*)\"", text))
    for group in re.findall(r"\bEnvVars:\s+\[\]string\{([^}]*)\}", text):
        yield from re.findall(r'"(\w+)"', group)


def flags(text: str) -> Iterable[str]:
    """Yield flags, as ``--flag``, of a Go command (pflag)."""
    pattern = r"Flags\(\)\.\w+Var\(&?[\w.]+, \"([\w-]+)\""
    return (f"--{one}" for one in re.findall(pattern, text))


def variables(text: str) -> Iterable[str]:
    """Yield the variables at the top of a file of Ansible's, also those that are commented out."""
    return VARIABLE.findall(text)


def types(text: str, root: str) -> Iterable[str]:
    """Yield the paths of a Go type's fields by their tags."""
    return _fields(dict(STRUCT.findall(text)), root, "")


def _fields(structs: Mapping[str, str], name: str, at: str) -> Iterable[str]:
    embedded = ((one, "", ",inline") for one in EMBEDDED.findall(structs[name]))
    for kind, tag, inline in (*embedded, *FIELD.findall(structs[name])):
        bare = re.sub(r"^(\[\]|\*)*", "", kind)
        path = at if inline else f"{at}.{tag}" if at else tag
        many = "[]" if kind.startswith("[]") else ""
        below = _fields(structs, bare, path + many) if bare in structs and bare != "EnvVar" else ()
        yield from tuple(below) or ([] if tag == "-" or inline else [path])


def pattern(text: str, wanted: str) -> Iterable[str]:
    """Yield what a pattern finds."""
    return re.findall(wanted, text)


READERS: dict[str, Callable[..., Iterable[str]]] = {
    one.__name__: one for one in (values, templates, cli, flags, variables, types, pattern)
}


def names(read: Mapping[str, Any], files: Callable[[str], str]) -> set[str]:
    """Return the names that one entry of ``reads`` finds in the text of its paths."""
    more = [str(read["with"])] if "with" in read else []
    text = "\n".join(files(path) for path in read["paths"])
    return set(READERS[read["kind"]](text, *more)) - set(read.get("without", []))


def only_leaves(found: set[str]) -> list[str]:
    """Return names without those that only lead to others, such as ``driver`` to ``driver.image``."""
    return sorted(one for one in found if not any(other.startswith(f"{one}.") for other in found))


def files(checkout: str, commit: str) -> Callable[[str], str]:
    """Return what reads a file, or all files of a folder, of a commit."""

    def read(path: str) -> str:
        there = _git(checkout, "ls-tree", "-r", "--name-only", commit, path).split()
        if not there:
            sys.exit(f"{path}: not in {checkout} at {commit}")
        return "\n".join(_git(checkout, "show", f"{commit}:{one}") for one in there)

    return read


def record(page: str, checkout: str) -> None:
    """Write what a checkout's newest commit has, for the reads of a page."""
    commit = _git(checkout, "rev-parse", "HEAD").strip()
    release = _git(checkout, "describe", "--tags").strip()
    read = files(checkout, commit)
    found: dict[str, set[str]] = {}
    for one in yaml.safe_load((DATA / f"{page}.yml").read_text())["reads"]:
        found.setdefault(one["of"], set()).update(names(one, read))
    table = {of: only_leaves(each) for of, each in found.items()}
    head = f"{LICENCE}# Written by tests/docs/upstream.py {page}\n---\n"
    data = {"release": release, "commit": commit, "names": table}
    text = yaml.safe_dump(data, sort_keys=False, indent=2, width=100)
    (DATA / f"{page}.names.yml").write_text(head + text.replace("\n  - ", "\n    - "))


def _git(checkout: str, *words: str) -> str:
    done = subprocess.run(
        ("git", "-C", checkout, *words), capture_output=True, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    record(*sys.argv[1:])

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Stands for the Python of a taken node: ``interpreter.py FOLDER ...`` runs the genuine one and forges its answer.

FOLDER/attack.json is a list of changes, each an object with one of the keys of FORGERIES. ``module`` is a pattern for
the names of the modules whose answers it changes, and ``text`` for what the node was sent. FOLDER/called has the
modules that ran, and FOLDER/leaked those that were sent SECRET, a word that only files of the controller have.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

SECRET = b"only-the-controller-knows-this"
WIDTH = 1 << 20


def module_name(argv: list[str], source: bytes) -> str:
    """Return the name of the module that is run, which comes as a file or on the standard input."""
    if argv:
        return Path(argv[0]).stem.removeprefix("AnsiballZ_")
    found = re.search(rb"ansible[./]modules[./](\w+)", source)
    return found[1].decode() if found else ""


def received(argv: list[str], source: bytes) -> bytes:
    """Return all that the node was sent: the module, its arguments, and the archives that these name."""
    parts = [source, *(Path(path).read_bytes() for path in argv if os.path.isfile(path))]
    for path in re.findall(rb'"(/[^"]+\.tar\.gz)"', b"".join(parts)):
        if os.path.isfile(path) and tarfile.is_tarfile(path):
            with tarfile.open(os.fsdecode(path)) as archive:
                for member in archive:
                    stream = archive.extractfile(member)
                    parts += [member.name.encode(), stream.read() if stream else b""]
    return b"\n".join(parts)


def append(value: Any, suffix: str) -> Any:
    """Return a value with a suffix at each of its strings."""
    if isinstance(value, str):
        return value + suffix
    if isinstance(value, list):
        return [append(item, suffix) for item in value]
    if isinstance(value, dict):
        return {key: append(item, suffix) for key, item in value.items()}
    return value


def facts(answer: dict[str, Any], variables: dict[str, Any]) -> None:
    """Define variables of the run."""
    answer.setdefault("ansible_facts", {}).update(variables)


def keys(answer: dict[str, Any], values: dict[str, Any]) -> None:
    """Add keys, or take the place of those that are there."""
    answer.update(values)


def suffix(answer: dict[str, Any], text: str) -> None:
    """Change each string."""
    answer.update({key: append(value, text) for key, value in answer.items()})


def shape(answer: dict[str, Any], value: Any) -> None:
    """Have one value for each key but those that say what became of the task."""
    outcome = ("changed", "failed", "msg", "rc", "skipped", "unreachable")
    answer.update({key: value for key in answer if key not in outcome})


def width(answer: dict[str, Any], size: int) -> None:
    """Add a text of so many bytes, and have it in the place of each that is there."""
    answer.update({key: "A" * size for key, value in answer.items() if isinstance(value, str)})
    answer["unknown"] = "A" * size


def messages(answer: dict[str, Any], count: int) -> None:
    """Add so many messages for whoever reads the output."""
    texts = ["A" * 1000] * count
    answer.update(warnings=texts, deprecations=[{"msg": text, "version": "1"} for text in texts])
    answer.update(exception="A" * count * 1000, diff=[{"prepared": "A" * count * 1000}])


def archive(answer: dict[str, Any], place: dict[str, Any]) -> None:
    """Name what is no evidence: a file whose text Ansible would read as variables, one of a size, or another path."""
    folder = Path(sys.argv[1])
    answer["path"] = place.get("path", str(folder / place.get("name", "")))
    if "name" in place:
        path = Path(answer["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((folder / "forged-variables.yml").read_text())
        if "size" in place:
            os.truncate(path, place["size"])
            answer["size"] = place["size"]
        elif path.is_file():
            data = path.read_bytes()
            answer.update(sha256=hashlib.sha256(data).hexdigest(), size=len(data))


FORGERIES = {
    "facts": facts,
    "keys": keys,
    "suffix": suffix,
    "shape": shape,
    "width": width,
    "messages": messages,
    "archive": archive,
}


def forged(answer: dict[str, Any], change: dict[str, Any]) -> str | None:
    """Change an answer, or return what is printed in its place."""
    if "depth" in change:
        nested = "[" * change["depth"] + "]" * change["depth"]
        return f'{json.dumps(answer)[:-1]}, "deep": {nested}}}'
    if "raw" in change:
        return str(change["raw"])
    for key, forge in FORGERIES.items():
        if key in change:
            forge(answer, change[key])
    return None


def main() -> int:
    """Run a module, and forge its answer."""
    folder, argv = Path(sys.argv[1]), sys.argv[2:]
    source = b"" if argv else sys.stdin.buffer.read()
    name, data = module_name(argv, source), received(argv, source)
    with (folder / "called").open("a") as stream:
        stream.write(f"{name}\n")
    if SECRET in data:
        with (folder / "leaked").open("a") as stream:
            stream.write(f"{name}\n")
    process = subprocess.run(
        [sys.executable, *argv], input=source, stdout=subprocess.PIPE, check=False
    )
    try:
        answer = json.loads(process.stdout)
    except ValueError:
        sys.stdout.buffer.write(process.stdout)
        return process.returncode
    text = None
    for change in json.loads((folder / "attack.json").read_text()):
        if not re.fullmatch(change.get("module", ".*"), name):
            continue
        if re.search(change.get("text", "").encode(), data):
            text = forged(answer, change)
    sys.stdout.write(json.dumps(answer) if text is None else text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

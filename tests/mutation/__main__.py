# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Break guards of the product, one after the other, and see that a test of ``make test`` fails.

``python -m tests.mutation [NAME ...]`` works on a copy of the tree, keeps what it has found, and goes on where it was
stopped. The table is written to docs/evidence/mutation.md once each guard has been tried.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.runner.lanes import SHORT
from tests.runner.run import counted
from tests.support.paths import CACHE, DOCS, REPOSITORY

GUARDS = Path(__file__).with_name("guards.yml")
KEPT = CACHE / "mutation.json"
TREE = CACHE / "mutation/tree"
PAGE = DOCS / "evidence/mutation.md"
MARKS = ("<!-- guards: written by make mutation -->\n", "<!-- guards: end -->")
SHARED = ("venv", "zypper", "dnf5", "grub", "environments", "wheelhouse")
NAMED = 3  # tests of a guard on the page
Guard = dict[str, Any]


def copy() -> None:
    """Copy what git knows, with the caches of this tree."""
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir(parents=True)
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=REPOSITORY, capture_output=True, check=True).stdout
    words = ["rsync", "--archive", "--from0", "--files-from=-", "./", f"{TREE}/"]
    subprocess.run(words, cwd=REPOSITORY, input=listed, check=True)
    link = TREE / ".cache/collections/ansible_collections/gpu/node"
    link.parent.mkdir(parents=True)
    link.symlink_to("../../../..")
    for name in SHARED:
        (TREE / ".cache" / name).symlink_to(CACHE / name)
    (TREE / "tests/fakes/nvsim/build").symlink_to(REPOSITORY / "tests/fakes/nvsim/build")


def tried(guard: Guard) -> list[str]:
    """Return the tests that fail where a guard is broken. ValueError: its text is not in its file just once."""
    path = TREE / guard["file"]
    text = path.read_text()
    if text.count(guard["find"]) != 1:
        raise ValueError(f"{guard['name']}: {guard['file']} does not have once: {guard['find']!r}")
    report = CACHE / "mutation/report.xml"
    report.unlink(missing_ok=True)
    words = [sys.executable, "-m", "pytest", "-q", "-n", str(os.cpu_count()), "--maxfail=5"]
    words += ["-m", SHORT, f"--junit-xml={report}", *guard["tests"]]
    path.write_text(text.replace(guard["find"], guard["replace"]))
    try:
        done = subprocess.run(words, cwd=TREE, capture_output=True, text=True, check=False)
    finally:
        path.write_text(text)
    if done.returncode not in (0, 1, 2) or not report.exists():
        raise ValueError(
            f"{guard['name']}: pytest ended with {done.returncode}: {done.stdout[-500:]}"
        )
    return list(counted(report)[2])


def rows(guards: list[Guard], found: dict[str, list[str]]) -> list[str]:
    """Return the table of the guards, by file."""
    lines = ["| Guard | Without it | Caught by |", "| --- | --- | --- |"]
    for guard in sorted(guards, key=lambda one: str(one["file"])):
        names = [one.rpartition("/")[2].partition("[")[0] for one in found[guard["name"]]]
        names = [name.replace(".py::", "::") for name in dict.fromkeys(names)][:NAMED]
        caught = ", ".join(f"`{name}`" for name in names) or "nothing"
        lines.append(f"| `{guard['name']}` in `{guard['file']}` | {guard['guards']} | {caught} |")
    return lines


def write(guards: list[Guard], found: dict[str, list[str]]) -> None:
    """Put the table on its page."""
    head, _mark, rest = PAGE.read_text().partition(MARKS[0])
    table = "\n".join(rows(guards, found))
    PAGE.write_text(f"{head}{MARKS[0]}{table}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}")


def main() -> int:
    """Try the guards that have not been tried; return 0 where each was caught."""
    parser = argparse.ArgumentParser(prog="tests.mutation", description=__doc__)
    parser.add_argument("names", nargs="*", help="these again")
    options = parser.parse_args()
    guards: list[Guard] = yaml.safe_load(GUARDS.read_text())
    found: dict[str, list[str]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    copy()
    for guard in guards:
        name = guard["name"]
        if name in options.names or (name not in found and not options.names):
            found[name] = tried(guard)
            KEPT.write_text(json.dumps(found, indent=1))
            print(
                f"{'caught' if found[name] else 'NOT CAUGHT'}  {name}", *found[name][:1], flush=True
            )
    missed = [one["name"] for one in guards if not found.get(one["name"])]
    if len(found) >= len(guards):
        write(guards, found)
    print(f"{len(guards) - len(missed)} of {len(guards)} caught", *missed, sep="\n  ")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

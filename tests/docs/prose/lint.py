# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The prose linter, proselint with the rules of rules.yml: ``python -m tests.docs.prose.lint [FILE ...]``."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import yaml
from proselint.checks import __register__
from proselint.config import DEFAULT, Config
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, CheckResult, Padding
from proselint.registry.checks.engine import Fancy
from proselint.registry.checks.types import ExistenceSimple, PreferredForms
from proselint.tools import LintFile

from tests.docs.prose.texts import Text, texts

ROOT = Path(__file__).parents[3]
RULES = Path(__file__).with_name("rules.yml")
# Between two texts of a file, so that no sentence goes on from one to the next.
BETWEEN = "\n\n¶\n\n"
SENTENCE = re.compile(r"[^¶\s][^¶]*?(?:[.?!](?=\s)|(?=\s*¶|\s*\Z))")
WORD = re.compile(r"(?<!\w)[A-Za-z\d]\S*")  # code is none
CAPITAL = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+\b")
OWN = "gpu_node"


def registered(rules: dict[str, Any]) -> tuple[Check, ...]:
    """Return the checks of rules.yml as proselint's."""
    engine = Fancy()
    wordings = (
        Check(
            PreferredForms(
                {f"(?:{one})": instead for one, instead in forms.items()},
                Padding.STRICT_WORDS_IN_TEXT,
            ),
            engine,
            f"{OWN}.{name}",
            "not '{1}': {0}",
        )
        for name, forms in rules["instead"].items()
    )
    forms = (
        Check(
            ExistenceSimple(one["pattern"], tuple(one.get("except", ()))),
            engine,
            f"{OWN}.{name}",
            "'{}': " + one["says"],
        )
        for name, one in rules["forms"].items()
    )

    def long(text: str, check: Check) -> Iterator[CheckResult]:
        """Yield the sentences of more words than they may have."""
        for found in SENTENCE.finditer(text):
            number = len(WORD.findall(found.group()))
            if number > rules["longest"]:
                said = f"{number} words, {rules['longest']} at most: split it"
                yield CheckResult(check.path, said, found.span(), None)

    return *wordings, *forms, Check(long, engine, f"{OWN}.long sentence")


def findings(path: Path, rules: dict[str, Any]) -> Iterator[str]:
    """Yield what a file should say in another way, each with its line."""
    read = [one for one in texts(path) if one.words]
    if not read:
        return
    starts = list(accumulate((len(one.words + BETWEEN) for one in read), initial=1))
    body = BETWEEN.join(one.words.replace("\n", " ") for one in read)
    off = dict(rules["proselint"])
    if rules["developers"]["pages"] in str(path):
        off[f"{OWN}.{rules['developers']['but']}"] = False
    config = Config(max_errors=sys.maxsize, checks={**off, OWN: True, **DEFAULT["checks"]})
    found = [
        (_line(read, starts, one.check_result.span[0]), one.check_result)
        for one in LintFile(path.name, body).lint(config)
        if any(map(str.isalpha, f"\n{body}"[slice(*one.check_result.span)]))
    ]
    lines = [
        (line, f"{one.check_path.removeprefix(OWN + '.')}: {one.message}") for line, one in found
    ]
    for line, said in sorted([*lines, *_headings(read, rules["names"])]):
        yield f"{line}: {said}"


def _line(read: list[Text], starts: list[int], place: int) -> int:
    number = min(bisect_right(starts, place), len(read)) - 1
    return read[number].line_of(place - starts[number])


def _headings(read: Iterable[Text], names: list[str]) -> Iterator[tuple[int, str]]:
    for one in read:
        for found in CAPITAL.findall(one.words) if one.kind == "heading" else ():
            if found not in names:
                yield (
                    one.line,
                    f"sentence case: '{found}' begins no sentence; a name belongs to names",
                )


def files(rules: dict[str, Any]) -> list[Path]:
    """Return the files that people read."""
    found = {path for one in rules["files"] for path in ROOT.glob(one)}
    return sorted(one for one in found if not any(each in str(one) for each in rules["not_read"]))


def main() -> None:
    """Print the findings in all files, or in those that are named."""
    rules = yaml.safe_load(RULES.read_text())
    CheckRegistry().register_many((*__register__, *registered(rules)))
    named = [Path(one).resolve() for one in sys.argv[1:]] or files(rules)
    found = [
        f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{one}"
        for path in named
        for one in findings(path, rules)
    ]
    if found:
        sys.exit("\n".join(found))
    print(f"{len(named)} files have nothing to say in another way")


if __name__ == "__main__":
    main()

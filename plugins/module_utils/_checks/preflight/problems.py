# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What stands in the way of a bring-up, collected, so that a user hears of all of it at once."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError, NodeError
from ..._base.variables import in_variables


class Problem(t.NamedTuple):
    """One thing to correct: the variable, empty where the node itself is meant, what is wrong, and the way out."""

    variable: str
    text: str
    hint: str = ""

    @classmethod
    def of(cls, error: NodeError, module: str = "") -> Problem:
        """Return the problem that an error is, in the variables of the module's role."""
        key = str(error.details.get("key", ""))
        text = f"{error.message}: {error.cause}" if error.cause else error.message
        named = in_variables(module, key)
        if key and text.startswith(f"{key}: "):
            text = f"{named}{text[len(key) :]}"
        return cls(named.partition(".")[0].partition("[")[0], text, error.hint)

    @classmethod
    def value(cls, variable: str, value: t.Any, expected: str) -> Problem:
        """Return the problem of a value that can't be meant."""
        return cls.of(InputError.of(variable, value, expected))

    def __str__(self) -> str:
        text = " ".join(self.text.split("\n"))
        return f"{text} ({self.hint})" if self.hint else text


class Refusal(NodeError):
    """All problems of a node in one error."""

    def __init__(self, problems: t.Sequence[Problem]) -> None:
        things = "one thing has" if len(problems) == 1 else f"{len(problems)} things have"
        of_values = all(problem.variable for problem in problems)
        super().__init__(
            f"nothing was changed, as {things} to be corrected first",
            cause="; ".join(map(str, problems)),
            hint=f"correct {'these variables' if of_values else 'what is named'}, and run again",
            problems=[problem._asdict() for problem in problems],
        )
        self._problems = problems

    def __str__(self) -> str:
        lines = "\n".join(f"- {problem}" for problem in self._problems)
        return f"{self.message}:\n{lines}\nNext step: {self.hint}"


def once(problems: t.Iterable[Problem]) -> t.List[Problem]:
    """Return the first problem of each variable, and all of the node's."""
    by_key: t.Dict[t.Tuple[str, str], Problem] = {}
    for problem in problems:
        by_key.setdefault((problem.variable, "" if problem.variable else problem.text), problem)
    return list(by_key.values())

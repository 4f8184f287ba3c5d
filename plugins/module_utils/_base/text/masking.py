# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Texts and values as logs may have them: what looks like a credential is left out.

The texts are configurations in TOML and JSON, command lines, and what programs say of them. In
doubt too much is masked rather than too little.
"""

from __future__ import annotations

import difflib
import re
import typing as t

MASK = "***"
MASKED = re.compile(r"\*\*\*(?=[\s,\]}\"']|$)")
NOTHING = re.compile(r"(?i)(?:true|false|null|none|\"\"|''|\[\s*\]|\{\s*\})?[\s,]*")
WORDS = r"passw(?:or)?d|passphrase|secret|token|credential|cookie|(?:api|access|private)[_-]?key|key-data"
NAME = rf"(?:(?:{WORDS})|(?<![a-z0-9])auth(?:s|orization)?(?![a-z0-9]))[\w.-]*"
CLOSED = r"\\?[\"']?"
# Where the name in a heading ends. What is seen to end so is one: no key of a long line is tried in vain.
END_OF_IT = r"\][^\n\]]*\n"
# A key with what follows it up to its value; an option of a command line; the heading of a table in TOML.
START = re.compile(
    rf"""(?ix)
    (?P<heading>^[ \t]*\[\[?(?=[^\n=]*{END_OF_IT})(?:(?!{END_OF_IT})[^\n=])*?(?:{NAME})[^\n=]*{END_OF_IT})
    |(?:{NAME}){CLOSED}(?:[ \t]*[:=]\s*)
    |(?<![\w.-])--?[\w.-]*?(?:{NAME})(?:[ \t]+|\\?["']\s*,(?:\s|\\[nrt])*)(?![-:= \t])
    """,
    re.M,
)
# What stands between the scheme and the host. Where it is no login, all is taken: each address is read once.
LOGIN = re.compile(r"://(?:([^\s\"']*@)|[^\s\"']*)")
OPTION = re.compile(rf"(?i)--?[\w.-]*?(?:{NAME})")
NEXT_HEADING = re.compile(r"^[ \t]*\[", re.M)
TO_LINE_END = re.compile(r"[^\n]*")
LITERAL = re.compile(r"[^\s,\]}\"'\\]*")
OPENED = re.compile(r"([\"'])[\w.-]*\Z")
LONGEST = 100
# A string of JSON that is itself in a string of JSON.
QUOTED_AGAIN = re.compile(r"\\\"(?:[^\\\"]|\\[^\\\"]|\\\\(?:\\.|[^\\]))*\\\"")
STRING = {quote: re.compile(rf"(?:\\.|[^\\{quote}]|{quote}{quote})*", re.S) for quote in "\"'"}
# What a shell takes for one word with what stands before it: nothing in TOML or JSON begins so.
GLUED = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|[^\s'",\]}):;]+)*""")
GLUED_TO_QUOTE = re.compile(rf"""(?:[\"'](?=[^\s,\]}}):;\\]){GLUED.pattern})?""")
ENDS = {"[": "]", "{": "}"}
CONTEXT = 2
BETWEEN = "...\n"


def masked(value: t.Any) -> t.Any:
    """Return a JSON-able value with its credentials masked, in texts and under keys that name them."""
    if isinstance(value, str):
        return masked_text(value)
    if isinstance(value, dict):
        return {key: _under(key, one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_item(value[at - 1] if at else None, one) for at, one in enumerate(value)]
    return value


def logins(value: t.Any) -> t.Set[str]:
    """Return what stands before the host in the addresses of a JSON-able value, each with its at sign."""
    if isinstance(value, str):
        return {one[1] for one in LOGIN.finditer(value) if one[1]}
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return set().union(*map(logins, value))
    return set()


def files(options: t.Mapping[str, t.Any]) -> t.Set[str]:
    """Return the options that are texts of files with credentials in them, where a path was meant."""
    texts = (one for one in options.values() if isinstance(one, str))
    whole = (one for one in texts if "\n" in one or one[:1] == "{")
    return {one for one in whole if masked_text(one) != one}


def _under(key: t.Any, value: t.Any) -> t.Any:
    secret = isinstance(key, str) and re.search(rf"(?i){NAME}", key)
    return MASK if secret and value and not isinstance(value, bool) else masked(value)


def _item(before: t.Any, value: t.Any) -> t.Any:
    named = isinstance(before, str) and OPTION.fullmatch(before)
    return MASK if named and isinstance(value, str) and value[:1] != "-" else masked(value)


def masked_text(text: str) -> str:
    """Return a text with its credentials masked."""
    text = LOGIN.sub(lambda one: f"://{MASK}@" if one[1] else one[0], text)
    parts: t.List[str] = []
    at = 0
    match = START.search(text)
    while match:
        begin = match.end()
        if match["heading"]:
            found = NEXT_HEADING.search(text, begin)
            end, line = found.start() if found else len(text), "\n"
        else:
            end, line = _end(match), ""
        value = text[begin:end]
        parts += [text[at:begin], value if NOTHING.fullmatch(value) else MASK + line]
        at = end
        match = START.search(text, at)
    return "".join(parts) + text[at:]


def _around(match: t.Match[str]) -> str:
    """Return the quote that a word such as NAME=value is in, empty where it has none."""
    if set(match.group()) & set(STRING):
        return ""  # it ends before the value
    found = OPENED.search(match.string[max(match.start() - LONGEST, 0) : match.start()])
    return found[1] if found else ""


def _end(match: t.Match[str]) -> int:
    """Return where the value ends of which the key was found."""
    text, at, around = match.string, match.end(), _around(match)
    closed = bool(set(match.group()) & set(STRING))
    if MASKED.match(text, at):
        return at + len(MASK)
    if around:
        return _after(GLUED_TO_QUOTE, text, _after(STRING[around], text, at))
    first = text[at : at + 1]
    for fence in ('"""', "'''"):
        if text.startswith(fence, at):
            end = text.find(fence, at + 3)
            return len(text) if end < 0 else end + 3
    if first in ENDS:
        return _closed(text, at)
    if first and first in STRING:
        return _after(GLUED, text, _string(text, at))
    quoted = QUOTED_AGAIN.match(text, at)
    if quoted:
        return quoted.end()
    return _after(LITERAL if closed else TO_LINE_END, text, at)


def _after(pattern: t.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _string(text: str, at: int) -> int:
    return min(_after(STRING[text[at]], text, at + 1) + 1, len(text))


def _closed(text: str, at: int) -> int:
    """Return where a list or a map ends; at the text's end where it is not closed."""
    open_ones: t.List[str] = []
    while at < len(text):
        one = text[at]
        if one in STRING:
            at = _string(text, at)
            continue
        if one in ENDS:
            open_ones.append(ENDS[one])
        elif open_ones and one == open_ones[-1]:
            open_ones.pop()
        at += 1
        if not open_ones:
            return at
    return len(text)


def excerpts(before: str, after: str) -> t.Tuple[str, str]:
    """Return the lines of two texts that differ, with a little of what is around them."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, old, new)
    groups = list(matcher.get_grouped_opcodes(CONTEXT))
    return (
        BETWEEN.join("".join(old[one[0][1] : one[-1][2]]) for one in groups),
        BETWEEN.join("".join(new[one[0][3] : one[-1][4]]) for one in groups),
    )

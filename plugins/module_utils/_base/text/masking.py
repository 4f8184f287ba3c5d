# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Texts and values for logs, with credentials masked.

The texts are configurations in TOML and JSON, command lines, and messages of programs about them. In doubt too much is
masked rather than too little.
"""

from __future__ import annotations

import difflib
import re
import typing as t

from .login_options import LOGIN_OPTION, SEPARATOR, USER_OPTION, takes_password
from .private_keys import mask_private_keys
from .tokens import mask_tokens

MASK = "***"
MASKED = re.compile(r"\*\*\*(?=[\s\0,\]}\"']|$)")
NOTHING = re.compile(r"(?i)(?:true|false|null|none|\"\"|''|\[\s*\]|\{\s*\})?[\s,]*")
WORDS = r"passw(?:or)?d|passphrase|secret|token|credential|cookie|(?:api|access|private)[_-]?key|key-data"
WORDS += r"|(?<=[_-])(?:pass(?:code|in|out)?|pwd)(?![a-z])|(?<![a-z])psk(?![a-z])|x-amz-signature"
NAME = rf"(?:(?:{WORDS})|(?<![a-z0-9])auth(?:s|orization)?(?![a-z0-9]))[\w.-]*"
CLOSED = r"\\?[\"']?"
# A key of something, and a value of some length that is no path, no address and no number of a device.
KEYED = r"(?:(?<=[a-z0-9_-])|(?<=licen[cs]e[ ]))(?<!public[_-])(?<!public)(?<!sig_)key"
KEY_VALUE = (
    r"""(?!\\?["']?(?:0x[0-9a-f]+(?![\w+/=-])|\.{0,2}/[a-z]|\w+:/))\\?["']?[^\s\0"'\\,]{6}"""
)
KEY_FIELD = re.compile(rf"(?is)[^=]*{KEYED}={KEY_VALUE}.*")
# The end of the name in a heading. It is looked for first, so that no key of a long line is tried in vain.
END_OF_IT = r"\][^\n\]]*\n"
# A key with the text up to its value; an option of a command line; the heading of a table in TOML.
START = re.compile(
    rf"""(?ix)
    (?P<heading>^[ \t]*\[\[?(?=[^\n=]*{END_OF_IT})(?:(?!{END_OF_IT})[^\n=])*?(?:{NAME})[^\n=]*{END_OF_IT})
    |(?:{NAME}){CLOSED}(?:[ \t]*[:=]\s*)
    |(?:{KEYED}){CLOSED}(?:[ \t]*[:=]\s*)(?={KEY_VALUE})
    |(?<![\w.-])pass=(?!\d*(?:[\s\0,]|$))
    |[?&]sig=(?=\S{{16}})
    |(?<![\w.-])--?[\w.-]*?(?:{NAME})(?:{SEPARATOR})(?![-:= \t])
    |(?P<option>(?-i:{LOGIN_OPTION}))
    |(?P<user>(?-i:{USER_OPTION}))
    """,
    re.M,
)
# Each match of START contains one of these, and most lines none.
CUES: t.Tuple[str, ...] = (
    "pass",
    "secret",
    "token",
    "credential",
    "cookie",
    "key",
    "auth",
    "pwd",
    "psk",
)
CUES += ("signature", "sig=", "-p", "-a", "-w", "-u", "--user", "--proxy-user")
# The login between the scheme and the host. Without one all of the address matches, so that it is read once.
LOGIN = re.compile(r"://(?:([^\s\"']*@)|[^\s\"']*)")
OPTION = re.compile(rf"(?i)--?[\w.-]*?(?:{NAME})")
SHORT_OPTIONS = ("-p", "-u", "-U", "--user", "--proxy-user")
NEXT_HEADING = re.compile(r"^[ \t]*\[", re.M)
TO_LINE_END = re.compile(r"[^\n\0]*")
LITERAL = re.compile(r"[^\s\0,\]}\"'\\]*")
WORD = re.compile(r"""[^\s\0"'\\]*""")
OPENED = re.compile(r"([\"'])[\w.-]*\Z")
LONGEST = 100
# A string of JSON that is itself in a string of JSON.
QUOTED_AGAIN = re.compile(r"\\\"(?:[^\\\"]|\\[^\\\"]|\\\\(?:\\.|[^\\]))*\\\"")
STRING = {quote: re.compile(rf"(?:\\.|[^\\{quote}]|{quote}{quote})*", re.S) for quote in "\"'"}
# Quoted parts that a shell joins to the word before them; nothing in TOML or JSON begins so.
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
        return {key: _under(key, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_item(value[at - 1] if at else None, item) for at, item in enumerate(value)]
    return value


def logins(value: t.Any) -> t.Set[str]:
    """Return the logins in the addresses of a JSON-able value, each with its at sign."""
    if isinstance(value, str):
        return {match[1] for match in LOGIN.finditer(value) if match[1]}
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return set().union(*map(logins, value))
    return set()


def files(options: t.Mapping[str, t.Any]) -> t.Set[str]:
    """Return the options that are texts of files with credentials, instead of paths."""
    texts = (option for option in options.values() if isinstance(option, str))
    whole = (text for text in texts if "\n" in text or text[:1] == "{")
    return {text for text in whole if masked_text(text) != text}


def _under(key: t.Any, value: t.Any) -> t.Any:
    secret = isinstance(key, str) and (
        re.search(rf"(?i){NAME}", key)
        or (isinstance(value, str) and KEY_FIELD.fullmatch(f"{key}={value}"))
    )
    return MASK if secret and value and not isinstance(value, bool) else masked(value)


def _item(before: t.Any, value: t.Any) -> t.Any:
    if not isinstance(before, str) or not isinstance(value, str):
        return masked(value)
    if OPTION.fullmatch(before) and value[:1] != "-":
        return MASK
    # Joined as in /proc/PID/cmdline.
    argument = masked_lines(f"{before}\0{value}") if before in SHORT_OPTIONS else ""
    return argument.partition("\0")[2] or masked_text(value)


def masked_text(text: str) -> str:
    """Return a text with its credentials masked."""
    return masked_lines(mask_private_keys(text, MASK))


def masked_lines(text: str) -> str:
    """Return a text with its credentials masked, except private keys, which are recognised by several lines."""
    text = LOGIN.sub(lambda match: f"://{MASK}@" if match[1] else match[0], text)
    text = mask_tokens(text, MASK)
    lower = text.lower()
    if not any(cue in lower for cue in CUES):
        return text
    parts: t.List[str] = []
    at = 0
    match = START.search(text)
    while match:
        begin = match.end()
        if match["option"] and not takes_password(match):
            match = START.search(text, begin)
            continue
        line = ""
        if match["heading"]:
            heading = NEXT_HEADING.search(text, begin)
            end, line = heading.start() if heading else len(text), "\n"
        elif match["option"] or match["user"]:
            end = _argument_end(match)
        else:
            end = _end(match)
        value = text[begin:end]
        parts += [text[at:begin], value if NOTHING.fullmatch(value) else MASK + line]
        at = end
        match = START.search(text, at)
    return "".join(parts) + text[at:]


def _argument_end(match: t.Match[str]) -> int:
    """Return where the argument of a short option ends."""
    text, at = match.string, match.end()
    if "\0" in match.group():
        return _after(TO_LINE_END, text, at)
    opened = re.search(r"""([\\]?)(["'])[^\s"']*\Z""", match.group()) if match["user"] else None
    if opened and not opened[1]:
        return _after(STRING[opened[2]], text, at)
    if text[at : at + 1] in STRING:
        return _after(GLUED, text, _string(text, at))
    if text.startswith("\\", at):
        at = min(at + 2, len(text))
    end = _after(WORD, text, at)
    return end if opened or "," in match.group() else _after(GLUED, text, end)


def _around(match: t.Match[str]) -> str:
    """Return the quote that a word such as NAME=value is in, empty if it has none."""
    if set(match.group()) & set(STRING):
        return ""  # it ends before the value
    opened = OPENED.search(match.string[max(match.start() - LONGEST, 0) : match.start()])
    return opened[1] if opened else ""


def _end(match: t.Match[str]) -> int:
    """Return where the value of the key in a match ends."""
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
    match = pattern.match(text, at)
    return match.end() if match else at


def _string(text: str, at: int) -> int:
    return min(_after(STRING[text[at]], text, at + 1) + 1, len(text))


def _closed(text: str, at: int) -> int:
    """Return where a list or a map ends; the end of the text if it is not closed."""
    closing: t.List[str] = []
    while at < len(text):
        character = text[at]
        if character in STRING:
            at = _string(text, at)
            continue
        if character in ENDS:
            closing.append(ENDS[character])
        elif closing and character == closing[-1]:
            closing.pop()
        at += 1
        if not closing:
            return at
    return len(text)


def excerpts(before: str, after: str) -> t.Tuple[str, str]:
    """Return the lines of two texts that differ, with a few lines of context."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, old, new)
    groups = list(matcher.get_grouped_opcodes(CONTEXT))
    return (
        BETWEEN.join("".join(old[group[0][1] : group[-1][2]]) for group in groups),
        BETWEEN.join("".join(new[group[0][3] : group[-1][4]]) for group in groups),
    )

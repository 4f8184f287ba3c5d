# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A report as one HTML page that loads nothing: its style, its script and its data are in it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import typing as t
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._base.text.shown import printable

ASSETS = Path(__file__).resolve().parents[3] / "files" / "report"
SCRIPT = ("nodes.js", "acceptance.js", "report.js")  # in one, in this order
# In JSON these stand within strings alone, where each may be written by its number.
ESCAPED = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&"})


def page(report: t.Mapping[str, t.Any]) -> str:
    """Return the page.

    No text of a node becomes markup: the data is JSON without a character that ends its element, the script makes
    text nodes of it, and the policy lets no other script or style run.
    """
    style, script = _asset("report.css"), "".join(map(_asset, SCRIPT))
    parts = {
        "@TITLE@": html.escape(printable(str(report["title"]))),
        "@POLICY@": policy(style, script),
        "@STYLE@": style,
        "@SCRIPT@": script,
        "@DATA@": embedded(cleaned(report)),
    }
    template = _asset("report.html")
    pieces = []
    for marker in ("@POLICY@", "@TITLE@", "@STYLE@", "@DATA@", "@SCRIPT@"):
        before, _marker, template = template.partition(marker)
        pieces += [before, parts[marker]]
    return "".join([*pieces, template])


def policy(style: str, script: str) -> str:
    """Return a Content-Security-Policy that lets these two run and forbids all else."""
    return (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(value: t.Any) -> str:
    """Return JSON that can stand in a script element of HTML, in ASCII."""
    text = json.dumps(value, separators=(",", ":"))
    return text.translate(ESCAPED)


def cleaned(value: t.Any) -> t.Any:
    """Return a value whose texts have written out what would steer a terminal or turn the reading direction."""
    if isinstance(value, str):
        return value if value.isascii() and value.isprintable() else printable(value, keep="\n")
    if isinstance(value, dict):
        return {cleaned(str(key)): cleaned(item) for key, item in value.items()}
    return [cleaned(item) for item in value] if isinstance(value, (list, tuple)) else value


def _asset(name: str) -> str:
    return (ASSETS / name).read_text("utf-8")

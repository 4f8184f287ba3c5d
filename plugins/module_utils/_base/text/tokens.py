# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tokens that are recognised by their form alone, whatever name or option is before them.

The prefixes are those in the issuers' documentation, and in secret scanners such as gitleaks.
"""

from __future__ import annotations

import re
import typing as t

# By a text that each token contains, as most lines have none of these. Each pattern matches all characters of its
# token, so that no character is read twice.
SHAPES = {
    "gh": r"gh[pousr]_[A-Za-z0-9]{20,}",
    "github_pat_": r"github_pat_\w{20,}",
    "gl": r"gl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|soat)-[\w.-]{16,}",
    "hf_": r"hf_[A-Za-z0-9]{30,}",
    "api_org_": r"api_org_[A-Za-z0-9]{30,}",
    "nvapi-": r"nvapi-[\w-]{20,}",
    "dckr_": r"dckr_[op]at_[\w-]{20,}",
    "npm_": r"npm_[A-Za-z0-9]{30,}",
    "pypi-": r"pypi-AgE[\w-]{20,}",
    "A3T": r"A3T[A-Z0-9][A-Z0-9]{16}(?![A-Za-z0-9])",
    "ABIA": r"ABIA[A-Z0-9]{16}(?![A-Za-z0-9])",
    "ACCA": r"ACCA[A-Z0-9]{16}(?![A-Za-z0-9])",
    "AKIA": r"AKIA[A-Z0-9]{16}(?![A-Za-z0-9])",
    "ASIA": r"ASIA[A-Z0-9]{16}(?![A-Za-z0-9])",
    "AIza": r"AIza[\w-]{30,}",
    "ya29.": r"ya29\.[\w.-]{20,}",
    "GOCSPX-": r"GOCSPX-[\w-]{20,}",
    "xox": r"xox[abeoprs]-[\w-]{10,}",
    "xapp-": r"xapp-[\w-]{20,}",
    "k_": r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "hv": r"hv[bs]\.[\w-]{20,}",
    "dop_v1_": r"dop_v1_[0-9a-f]{30,}",
    "tskey-": r"tskey-[\w-]{16,}",
    "AGE-SECRET": r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
    "AQ": r"AQ[A-Za-z0-9+/]{36}==",  # ceph's
    # A private key that is encoded in Base64 again; certificates and public keys begin in the same way.
    "LS0tLS1CRUdJTi": r"LS0tLS1CRUdJTi(?!BDRVJU|BQR1AgUFVC|BQVUJM|BUUlV)[A-Za-z0-9+/]{20,}={0,2}",
    "sk-": r"(?P<openai>sk-[\w-]{20,})",
    "eyJ": r"(?P<jwt>eyJ[\w+/-]{6,}(?:\.[\w-]*)*={0,2})",
    "earer": r"[Bb]earer[ \t]+(?P<bearer>[\w.~+/-]{16,}=*)",
}
TOKEN = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(SHAPES.values())})")
LONGEST_WORD = 40  # a Base64 text of JSON without a dot that is longer is no name


def mask_tokens(text: str, mask: str) -> str:
    """Return the text with a mask for each token."""
    if not any(part in text for part in SHAPES):
        return text
    return TOKEN.sub(lambda match: _masked(match, mask), text)


def _masked(match: t.Match[str], mask: str) -> str:
    text = match.group()
    if match["bearer"]:
        return text[: match.start("bearer") - match.start()] + mask
    if match["openai"] and not re.search(r"\d", text):
        return text
    if match["jwt"] and "." not in text and len(text) < LONGEST_WORD:
        return text
    return mask

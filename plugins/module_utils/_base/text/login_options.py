# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Short options whose value is a password with some programs, and a port, a path or a priority with others."""

from __future__ import annotations

import re
import typing as t

# Between an option and its value: blanks, the end of an argument in /proc/PID/cmdline, or of a text in a JSON list.
SEPARATOR = r"""(?:[ \t\0]+|\\?["']\s*,(?:\s|\\[nrt])*)"""
# Ports and their mappings, paths, variables, numbers, and what is masked already.
HARMLESS = r"""\\?["']?(?:[\d.:/-]+(?:tcp|udp|sctp)?(?![^\s\0"',])|\.{0,2}/|[~$*-]|[^\s\0"',]{1,3}(?:[\s\0"',]|$))"""
OPTION = rf"""(?<![\w.-])-(?:[Ppaw](?:{SEPARATOR})(?!{HARMLESS})|p(?=[^\s\0"',-]{{4}}))"""
USER = (
    rf"""(?<![\w-])(?:-[uU]|--(?:proxy-)?user)(?:{SEPARATOR}|=)(?!\\?["']?\d+:\d)"""
    r"""\\?["']?[^\s\0"':%\\]{1,64}[:%](?!//|\*\*\*|[\s\0"',]|$)"""
)
# The programs with such an option. Each other one that has -p with a word behind it is listed as harmless.
PASSWORDS = {
    "P": re.compile(r"(?i)\b(?:ipmi|bmc)[\w-]*"),
    "a": re.compile(r"\bredis-cli\b"),
    "w": re.compile(r"\bldap\w+"),
    "glued": re.compile(r"\b(?:mysql|mariadb)[\w-]*"),
}
OTHER_PROGRAMS = re.compile(
    r"\b(?:bash|chrt|cp|dd|find|gdb|install|journalctl|ionice|kill|lsof|mkdir|modprobe|mount|mv|netstat|nvidia-smi"
    r"|perf|pgrep|pidof|pkill|podman run|docker run|prlimit|ps|python[\d.]*|read|renice|rmdir|rsync|scp|ssh|ss"
    r"|strace|su|sudo|systemctl|tar|taskset|tcpdump|top|umount|unshare)[ \t\0]"
)
LONGEST_COMMAND = 300  # characters before the option that are looked at


def takes_password(option: t.Match[str]) -> bool:
    """Return whether the option is one for a password with the program that stands before it."""
    text = option.string
    start = max(option.start() - LONGEST_COMMAND, text.rfind("\n", 0, option.start()) + 1)
    command = text[start : option.start()]
    name = option.group()[1]
    if name == "p" and len(option.group()) > 2:
        return OTHER_PROGRAMS.search(command) is None
    return PASSWORDS["glued" if name == "p" else name].search(command) is not None

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Short options that take a password in some programs, and a port, a path or a priority in others."""

from __future__ import annotations

import re
import typing as t

# Between an option and its value: blanks, the end of an argument in /proc/PID/cmdline, or of a string in a JSON list.
SEPARATOR = r"""(?:[ \t\0]+|\\?["']\s*,(?:\s|\\[nrt])*)"""
HARMLESS_VALUE = (
    r"""\\?["']?(?:[\d.:/-]+(?:tcp|udp|sctp)?(?![^\s\0"',])"""  # a number, a port or a mapping of ports
    r"""|\.{0,2}/"""  # a path
    r"""|[~$*-]"""  # a path below a home, a variable, a masked value or the next option
    r"""|[^\s\0"',]{1,3}(?:[\s\0"',]|$))"""  # a value too short for a password
)
LOGIN_OPTION = (
    rf"""(?<![\w.-])-(?:[Ppaw](?:{SEPARATOR})(?!{HARMLESS_VALUE})"""  # -p VALUE
    r"""|p(?=[^\s\0"',-]{4}))"""  # -pVALUE
)
# Up to the password: -u NAME:, --user=NAME: or NAME%, but neither a mapping of numeric ids nor a URL.
USER_OPTION = (
    rf"""(?<![\w-])(?:-[uU]|--(?:proxy-)?user)(?:{SEPARATOR}|=)(?!\\?["']?\d+:\d)"""
    r"""\\?["']?[^\s\0"':%\\]{1,64}[:%](?!//|\*\*\*|[\s\0"',]|$)"""
)
# The programs whose option is a password, by its letter. Of -p this is for -pVALUE; see HARMLESS_PROGRAMS.
PASSWORD_PROGRAMS = {
    "P": re.compile(r"(?i)\b(?:ipmi|bmc)[\w-]*"),
    "a": re.compile(r"\bredis-cli\b"),
    "w": re.compile(r"\bldap\w+"),
    "p": re.compile(r"\b(?:mysql|mariadb)[\w-]*"),
}
# The programs whose -p VALUE is no password. That of any other program is masked.
HARMLESS_PROGRAMS = re.compile(
    r"\b(?:bash|chrt|cp|dd|find|gdb|install|journalctl|ionice|kill|lsof|mkdir|modprobe|mount|mv|netstat|nvidia-smi"
    r"|perf|pgrep|pidof|pkill|podman run|docker run|prlimit|ps|python[\d.]*|read|renice|rmdir|rsync|scp|ssh|ss"
    r"|strace|su|sudo|systemctl|tar|taskset|tcpdump|top|umount|unshare)[ \t\0]"
)
MAX_COMMAND_LENGTH = 300  # characters before the option that are searched for its program


def takes_password(option: t.Match[str]) -> bool:
    """Return whether an option takes a password in the program that it is given to.

    Args:
        option: A match of LOGIN_OPTION, in the text with the command line.
    """
    text = option.string
    line_start = text.rfind("\n", 0, option.start()) + 1
    command = text[max(option.start() - MAX_COMMAND_LENGTH, line_start) : option.start()]
    letter, has_separator = option.group()[1], len(option.group()) > len("-p")
    if letter == "p" and has_separator:
        return HARMLESS_PROGRAMS.search(command) is None
    return PASSWORD_PROGRAMS[letter].search(command) is not None

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Secure Boot: whether the kernel will accept the modules that DKMS signs on the node."""

from __future__ import annotations

import re
import typing as t

from ..errors import NodeError

CONFIGURED = re.compile(r"^[ \t]*mok_certificate=[\"']?([^\"'\s#]+)", re.M)
# Ubuntu's DKMS signs with the key that its shim package makes, all others with one of their own.
DEFAULT_KEYS = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub")
ANSWERS = (
    ("is not enrolled", "refused"),
    ("is blocked in", "blocked"),
    ("is already in the enrollment request", "pending"),
    ("is already enrolled", "enrolled"),
    ("is already in db", "enrolled"),
)


class SigningKey(t.NamedTuple):
    """The key that DKMS signs with; ``state`` is one of those in ANSWERS, missing or unknown."""

    path: str
    state: str


def configured_key(texts: t.Iterable[str]) -> str:
    """Return the path that DKMS's configuration names, empty where it is left to DKMS."""
    found = [path for text in texts for path in CONFIGURED.findall(text)]
    return found[-1] if found else ""


def enrolment(words: str) -> str:
    """Return the state of a key from what ``mokutil --test-key`` says; its status tells nothing."""
    for answer, state in ANSWERS:
        if answer in words:
            return state
    return "unknown"


def refuse(key: SigningKey) -> None:
    """Raise NodeError unless modules that DKMS builds will be accepted."""
    problems = {
        "missing": (
            f"DKMS has no key to sign modules with: {key.path} is not there",
            f"make one (dkms generate_mok), then mokutil --import {key.path}, reboot and confirm it on the console",
        ),
        "refused": (
            f"the key that DKMS signs modules with, {key.path}, is not enrolled, so the kernel rejects them",
            f"mokutil --import {key.path}, reboot and confirm it on the console",
        ),
        "pending": (
            f"the key that DKMS signs modules with, {key.path}, waits to be confirmed at the next boot",
            "reboot and confirm it on the console (Enroll MOK)",
        ),
        "blocked": (
            f"the firmware blocks the key that DKMS signs modules with, {key.path}",
            "have DKMS make another key and enrol that",
        ),
        "unknown": (
            f"mokutil does not report whether {key.path}, which DKMS signs modules with, is enrolled",
            "install mokutil, or set secure_boot to ignore if you know that it is",
        ),
    }
    if key.state in problems:
        cause, hint = problems[key.state]
        raise NodeError("Secure Boot is on", cause=cause, hint=f"{hint}, or turn Secure Boot off")

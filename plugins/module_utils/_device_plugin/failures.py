# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Errors of the programs that the device plugin's deployment runs, for users."""

from __future__ import annotations

import re
import typing as t

INDEX = (
    "give the role a package index (device_plugin_index_url) or a wheelhouse (device_plugin_wheelhouse);"
    " what the device plugin's requirements.txt does not list by its hash is not installed, nor is anything built"
)
# Tried with pip 23.2 and 26.3.
AUTHORITY = (
    "put the certificate of the authority that has signed it, which may be that of a proxy, into the node's own store"
    " (update-ca-certificates, or update-ca-trust in the RHEL family), and run again; or give the role a wheelhouse"
    " (device_plugin_wheelhouse)"
)
WAY = (
    "let the node reach it, or give the role another index (device_plugin_index_url) or a wheelhouse"
    " (device_plugin_wheelhouse); for a way through a proxy, a play of your own gives it HTTPS_PROXY"
)
RETRY = re.compile(r"^WARNING: Retrying \(.*$\n?", re.M)
UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
CERTIFICATE = re.compile(rf"{UNTRUSTED}\] (?P<reason>[^'(\n]*)")
CONNECTION = re.compile(
    r"(?:Failed to establish a new connection: |Tunnel connection failed: |ConnectTimeoutError\(.*?, )"
    r"[\"']?(?:\[Errno -?\d+\] )?(?P<reason>[^'\")\n]*)"
)
LOGGED = re.compile(r"^\d{4}-\S+ (?:error|ERROR): ")


def of_pip(text: str) -> t.Tuple[str, str]:
    """Return why pip could not install, and the next step."""
    match = CERTIFICATE.search(text)
    if match:
        reason = match["reason"].strip().replace("certificate verify failed: ", "")
        return f"the node does not trust the certificate of the package index: {reason}", AUTHORITY
    match = CONNECTION.search(text)
    if match:
        return f"the package index does not answer: {match['reason'].strip()}", WAY
    return RETRY.sub("", text).strip() or text, INDEX


def of_check_config(text: str, file: str) -> str:
    """Return why the daemon refuses a configuration, without the log's prefix and the file's line numbers."""
    text = LOGGED.sub("", text.strip())
    return re.sub(rf"(?:, first at |first at )?{re.escape(file)}: line \d+(?:: )?", "", text)


def is_full(text: str, free: int) -> bool:
    """Return whether a failure is that of a full disk, which some programs don't report."""
    return "No space left on device" in text or free < 1 << 20

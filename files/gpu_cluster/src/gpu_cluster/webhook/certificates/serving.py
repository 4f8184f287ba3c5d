# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The TLS context of the server, whose certificate is replaced while it serves, and certificates in files."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final

from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.tools import bounded

from .. import metrics
from . import issue
from .issue import Pair

NAME: Final = "webhook-certificate"
LONGEST: Final = 256 << 10
HINT: Final = "let cert-manager issue it, and mount its Secret; it is looked for again"


class Serving:
    """The ``context`` with the pair that was loaded last, a new one for each.

    OpenSSL takes the key out of a context for as long as a certificate and its key are exchanged, and a
    handshake that begins in that moment fails.
    """

    def __init__(self) -> None:
        self.context = _context()
        self.until = 0.0
        self._loaded: Pair | None = None

    def load(self, pair: Pair) -> bool:
        """Serve a pair from the next connection on. Return whether it has changed.

        Raises:
            NodeError: if it can't be served.
        """
        if pair == self._loaded:
            return False
        certificates = issue.facts(pair.certificate)
        if not certificates or not issue.belongs(pair.key, certificates[0]):
            raise NodeError(
                "the serving certificate can't be used", cause="its key is another one's"
            )
        try:
            self._load(pair)
        except (OSError, ssl.SSLError) as error:
            raise NodeError("the serving certificate can't be used", cause=str(error)) from error
        self._loaded, self.until = pair, certificates[0].until
        metrics.EXPIRY.set(self.until)
        return True

    def _load(self, pair: Pair) -> None:
        """Load it from memory: the library reads files only, and the key stays off disks."""
        memory = os.memfd_create(NAME, os.MFD_CLOEXEC)
        try:
            with open(memory, "wb", closefd=False) as stream:
                stream.write(f"{pair.certificate}\n{pair.key}\n".encode())
            context = _context()
            context.load_cert_chain(f"/proc/self/fd/{memory}")
        finally:
            os.close(memory)
        self.context = context


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


class Files:
    """The pair of two files that others renew, such as cert-manager in a Secret that is mounted."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate, self._key = certificate, key

    def look(self, _time: float) -> Pair:
        """Return the pair to serve.

        Raises:
            NodeError: if it can't be read.
        """
        try:
            certificate = bounded.read_text(self._certificate, LONGEST)
            return Pair(certificate, bounded.read_text(self._key, LONGEST))
        except (OSError, UnicodeDecodeError) as error:
            raise NodeError(
                "the serving certificate can't be read", cause=str(error), hint=HINT
            ) from error

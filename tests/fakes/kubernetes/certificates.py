# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Certificates of a cluster in a folder: an authority, its server, and clients whose file is a link."""

from __future__ import annotations

import ipaddress
import json
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey


class Authority:
    """``ca`` is its certificate's file, ``client`` the link to the client's, key included."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca, self.client = folder / "ca.crt", folder / "client-current.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("authority")
        found = self._signed("authority", self._key, (x509.BasicConstraints(True, None), True))
        self.ca.write_bytes(found)
        self.renew("first")

    def renew(self, name: str) -> None:
        """Let the link lead to another certificate, as a kubelet does it."""
        made = self.folder / f"client-{name}.pem"
        made.write_bytes(self._pair(name))
        temporary = self.folder / "client.tmp"
        temporary.symlink_to(made)
        temporary.replace(self.client)

    def identity(self, name: str, group: str = "") -> Path:
        """Return the file of a certificate and key for somebody in a group, or for a server at 127.0.0.1."""
        made = self.folder / f"{name.replace(':', '-')}.pem"
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        usage = x509.ExtendedKeyUsage(
            [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        )
        made.write_bytes(self._pair(name, (names, False), (usage, False), group=group))
        return made

    def server(self, address: str) -> ssl.SSLContext:
        """What a server listens with that has clients only with a certificate."""
        pair = self.folder / "server.pem"
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        pair.write_bytes(self._pair("server", (names, False)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair)
        context.load_verify_locations(self.ca)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def write_kubeconfig(self, path: Path) -> None:
        """Let a stand-in's kubeconfig have them, as a kubelet's has."""
        config = json.loads(path.read_text())
        config["clusters"][0]["cluster"]["certificate-authority"] = str(self.ca)
        names = dict.fromkeys(("client-certificate", "client-key"), str(self.client))
        config["users"][0]["user"].update(names)
        path.write_text(json.dumps(config))

    def _pair(self, name: str, *extensions: tuple[Any, bool], group: str = "") -> bytes:
        key = ec.generate_private_key(ec.SECP256R1())
        plain = serialization.NoEncryption()
        form = serialization.PrivateFormat.PKCS8
        return self._signed(name, key, *extensions, group=group) + key.private_bytes(
            serialization.Encoding.PEM, form, plain
        )

    def _signed(self, name: str, key: Key, *extensions: tuple[Any, bool], group: str = "") -> bytes:
        now = datetime.now(UTC)
        made = x509.CertificateBuilder().subject_name(_named(name, group)).issuer_name(self._name)
        made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
        made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(
            now + timedelta(days=1)
        )
        about = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        by = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        for extension, critical in ((about, False), (by, False), *extensions):
            made = made.add_extension(extension, critical)
        return made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _named(name: str, group: str = "") -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, name)])

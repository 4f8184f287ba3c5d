# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""X.509: an authority, the certificates that it signs, their facts, and the data of the Secret that has them."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from gpu_plugin._shared._base.errors import NodeError

UTC: Final = timezone.utc  # noqa: UP017 - datetime.UTC is 3.11's
AUTHORITY_DAYS, SERVING_DAYS = 1825, 90
SKEW: Final = timedelta(minutes=10)  # by which an API server's clock may be behind
LONGEST_NAME: Final = 64  # of a subject
Extension = tuple[x509.ExtensionType, bool]
# The keys of the Secret's data by field.
FIELDS: Final = {
    "bundle": "ca.crt",
    "authority_key": "ca.key",
    "chain": "tls.crt",
    "key": "tls.key",
}


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: str
    key: str


@dataclass(frozen=True)
class SecretData:
    """The data of the Secret, as PEM: authorities (the newest first), its key, the serving pair.

    ``published`` is the newest authority's fingerprint if the API server's configuration was seen
    with it, ``since`` when that was.
    """

    bundle: str = ""
    authority_key: str = ""
    chain: str = ""
    key: str = ""
    published: str = ""
    since: float = 0.0


@dataclass(frozen=True)
class Facts:
    """The fields of a certificate; times are seconds since 1970."""

    pem: str
    fingerprint: str
    own_id: str
    issuer_id: str
    since: float
    until: float
    names: tuple[str, ...] = ()

    def left(self, time: float) -> float:
        """Return how much of its time is left, from 1 to 0."""
        return max(self.until - time, 0.0) / (self.until - self.since)


def authority(name: str, time: float) -> Pair:
    """Return a new authority, which signs for no other authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    extensions: list[Extension] = [
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (_usage(signs=True), True),
    ]
    return _signed(name, key, None, key, time, AUTHORITY_DAYS, extensions)


def serving(made_by: Pair, names: Sequence[str], time: float) -> Pair:
    """Return a pair for a server with these names or addresses.

    Raises:
        NodeError: if the authority is damaged.
    """
    try:
        signer = x509.load_pem_x509_certificates(made_by.certificate.encode())[0]
        signer_key = serialization.load_pem_private_key(made_by.key.encode(), None)
    except (ValueError, TypeError, IndexError) as error:
        raise NodeError("the authority's key can't be read", cause=str(error)) from error
    if not isinstance(signer_key, ec.EllipticCurvePrivateKey):
        raise NodeError(
            "the authority's key is not one that the webhook made", cause="it is not an EC key"
        )
    extensions: list[Extension] = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([_name(name) for name in names]), False),
    ]
    key = ec.generate_private_key(ec.SECP256R1())
    return _signed(names[0], key, signer, signer_key, time, SERVING_DAYS, extensions)


def facts(pem: str) -> tuple[Facts, ...]:
    """Return the facts of the certificates in a PEM text, none if it can't be read."""
    try:
        certificates = x509.load_pem_x509_certificates(pem.encode()) if pem.strip() else []
        return tuple(map(_facts, certificates))
    except (ValueError, x509.ExtensionNotFound):
        return ()


def belongs(key: str, certificate: Facts) -> bool:
    """Return whether a key is a certificate's."""
    try:
        mine = serialization.load_pem_private_key(key.encode(), None).public_key()
        theirs = x509.load_pem_x509_certificate(certificate.pem.encode()).public_key()
    except (ValueError, TypeError):
        return False
    return mine == theirs


def _facts(certificate: x509.Certificate) -> Facts:
    extensions = certificate.extensions
    own = extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    authority_key = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    return Facts(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        certificate.fingerprint(hashes.SHA256()).hex(),
        own.digest.hex(),
        (authority_key.key_identifier or b"").hex(),
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
        tuple(_names(certificate)),
    )


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        alternatives = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except x509.ExtensionNotFound:
        return []
    addresses = map(str, alternatives.get_values_for_type(x509.IPAddress))
    return [*alternatives.get_values_for_type(x509.DNSName), *addresses]


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signer: x509.Certificate | None,
    signer_key: ec.EllipticCurvePrivateKey,
    time: float,
    days: int,
    extensions: Sequence[Extension],
) -> Pair:
    begin = datetime.fromtimestamp(int(time), UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:LONGEST_NAME])])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - SKEW)
        .not_valid_after(begin + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()), False
        )
    )
    for extension, critical in extensions:
        made = made.add_extension(extension, critical)
    certificate = made.sign(signer_key, hashes.SHA256())
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(serialization.Encoding.PEM, form, plain).decode(),
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The fingerprints of OpenPGP public keys: a node need not have a program that tells them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import typing as t

from .errors import InputError

ARMOUR = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----\s*?\n(.*?)-----END PGP PUBLIC KEY BLOCK-----", re.S
)
PUBLIC_KEY = 6
EXPECTED = "an OpenPGP public key, ASCII-armoured or binary"


def is_armoured(text: str) -> bool:
    """Tell whether a key is written in ASCII."""
    return ARMOUR.search(text) is not None


def fingerprints(text: str, option: str) -> t.Tuple[str, ...]:
    """Return the fingerprints of the primary keys in a key file, as text with surrogate escapes.

    InputError names the option where the file has no key that can be read. RFC 9580, 5.5.4.
    """
    blocks = ARMOUR.findall(text)
    binary = [_decode(block, option) for block in blocks]
    data = b"".join(binary) if blocks else text.encode("utf-8", "surrogateescape")
    try:
        found = tuple(_fingerprint(body) for tag, body in _packets(data) if tag == PUBLIC_KEY)
    except (IndexError, ValueError) as error:
        raise InputError.of(option, text[:40], EXPECTED) from error
    if not found:
        raise InputError.of(option, text[:40], EXPECTED)
    return found


def _decode(block: str, option: str) -> bytes:
    """Return what is inside of armour: headers have a colon, the checksum begins with =."""
    lines = (line.strip() for line in block.split("\n"))
    body = "".join(line for line in lines if line[:1] != "=" and ":" not in line)
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise InputError.of(option, block[:40], EXPECTED) from error


def _packets(data: bytes) -> t.Iterator[t.Tuple[int, bytes]]:
    """Yield tag and body of each packet; ValueError where the data ends too early."""
    at = 0
    while at < len(data):
        head = data[at]
        if not head & 0x80:
            raise ValueError("no packet begins here")
        if head & 0x40:
            tag = head & 0x3F
            at, size = _new_length(data, at + 1)
        else:
            octets = 1 << (head & 3)
            if octets == 8:
                raise ValueError("a packet without a length")
            tag, size = (head >> 2) & 0xF, int.from_bytes(data[at + 1 : at + 1 + octets], "big")
            at += 1 + octets
        if at + size > len(data):
            raise ValueError("the last packet is cut off")
        yield tag, data[at : at + size]
        at += size


def _new_length(data: bytes, at: int) -> t.Tuple[int, int]:
    """Return where a packet's body begins, and its size in octets."""
    first = data[at]
    if first < 192:
        return at + 1, first
    if first < 224:
        return at + 2, ((first - 192) << 8) + data[at + 1] + 192
    if first < 255:
        raise ValueError("a key in parts")
    return at + 5, int.from_bytes(data[at + 1 : at + 5], "big")


def _fingerprint(body: bytes) -> str:
    version = body[0]
    if version == 4:
        # The format prescribes SHA-1 here; keys of version 6 have SHA-256.
        digest = hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False)
    elif version == 6:
        digest = hashlib.sha256(b"\x9b" + len(body).to_bytes(4, "big") + body)
    else:
        raise ValueError(f"a key of version {version}")
    return digest.hexdigest().upper()

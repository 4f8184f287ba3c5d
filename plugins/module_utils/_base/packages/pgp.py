# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""OpenPGP public keys in key files, without a program on the node that reads them.

Package managers find keys in a file at places where another reader doesn't look. So a file has to consist of keys
alone, and the node's file is written from the keys that were read, never copied.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import textwrap
import typing as t

from ..errors import InputError

BEGIN, END = (f"-----{edge} PGP PUBLIC KEY BLOCK-----" for edge in ("BEGIN", "END"))
ARMOUR = re.compile(rf"{BEGIN}[ \t\r]*\n(.*?){END}", re.S)
HEADER = re.compile(r"[A-Za-z-]+:.*")
MAX_BYTES = 1 << 18
PUBLIC_KEY = 6
BELONGING = (2, 13, 14, 17)  # signatures, user ids, subkeys, pictures
IGNORED = (10, 12, 21)  # markers, gpg's own notes of trust, padding
EXPECTED = "an OpenPGP public key, ASCII-armoured or binary, and nothing else"


class PublicKey(t.NamedTuple):
    """A primary key's fingerprint, and its packets with those of its names and subkeys."""

    fingerprint: str
    packets: bytes


def is_armoured(text: str) -> bool:
    """Return whether a key is written in ASCII."""
    return BEGIN in text


def read(text: str, option: str) -> t.Tuple[PublicKey, ...]:
    """Return the keys of a key file, given as text with surrogate escapes. RFC 9580, 5.5.4.

    Raises:
        InputError: if the file does not consist of public keys alone, with the option.
    """
    try:
        keys = _keys(text)
    except (IndexError, ValueError) as error:
        cause = "it is cut off" if isinstance(error, IndexError) else error
        raise InputError.of(option, text[:40], f"{EXPECTED}; {cause}") from error
    return tuple(keys)


def _keys(text: str) -> t.List[PublicKey]:
    data = text.encode("utf-8", "surrogateescape")
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    # No armour begins with such a byte, and every packet does.
    if data[:1] < b"\x80":
        if ARMOUR.sub("", text).strip():
            raise ValueError(f"there is something outside of {BEGIN} and {END}")
        data = b"".join(map(_decode, ARMOUR.findall(text)))
    public_keys: t.List[PublicKey] = []
    for tag, packet, body in _packets(data):
        if tag == PUBLIC_KEY:
            public_keys.append(PublicKey(_fingerprint(body), packet))
        elif tag in BELONGING and public_keys:
            public_keys[-1] = public_keys[-1]._replace(packets=public_keys[-1].packets + packet)
        elif tag in (5, 7):
            raise ValueError("it has a secret key")
        elif tag not in IGNORED:
            raise ValueError("it has something else than public keys")
    if not public_keys:
        raise ValueError("it has no key")
    return public_keys


def binary(keys: t.Iterable[PublicKey]) -> str:
    """Return the text of a binary key file, with surrogate escapes."""
    return b"".join(key.packets for key in keys).decode("utf-8", "surrogateescape")


def armoured(keys: t.Iterable[PublicKey]) -> str:
    """Return keys in ASCII, each in armour of its own: older versions of rpm read only the first key of one."""
    text = ""
    for key in keys:
        lines = textwrap.wrap(base64.b64encode(key.packets).decode(), 64)
        text += "\n".join([BEGIN, "", *lines, f"={_checksum(key.packets)}", END, ""])
    return text


def _checksum(data: bytes) -> str:
    """Return the checksum of armour, which older versions of rpm require. RFC 4880, 6.1."""
    crc = 0xB704CE
    for octet in data:
        crc ^= octet << 16
        for _bit in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1864CFB
    return base64.b64encode(crc.to_bytes(3, "big")).decode()


def _decode(block: str) -> bytes:
    """Return the data inside of armour, which may begin with headers and end with a checksum."""
    lines = [line.strip() for line in block.strip().split("\n")]
    while lines and (HEADER.fullmatch(lines[0]) or not lines[0]):
        lines.pop(0)
    checksum = lines.pop()[1:] if lines and lines[-1][:1] == "=" and len(lines[-1]) == 5 else ""
    try:
        data = base64.b64decode("".join(lines), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("what is in the armour is not base64") from error
    if checksum and checksum != _checksum(data):
        raise ValueError("the checksum of the armour is wrong")
    return data


def _packets(data: bytes) -> t.Iterator[t.Tuple[int, bytes, bytes]]:
    """Yield tag, whole and body of each packet."""
    at = 0
    while at < len(data):
        begin, head = at, data[at]
        if not head & 0x80:
            raise ValueError("it has something else than packets of OpenPGP")
        if head & 0x40:
            tag = head & 0x3F
            at, size = _new_length(data, at + 1)
        else:
            octets = 1 << (head & 3)
            if octets == 8:
                raise ValueError("a packet is without a length")
            tag, size = (head >> 2) & 0xF, int.from_bytes(data[at + 1 : at + 1 + octets], "big")
            at += 1 + octets
        if at + size > len(data):
            raise ValueError("it is cut off")
        yield tag, data[begin : at + size], data[at : at + size]
        at += size


def _new_length(data: bytes, at: int) -> t.Tuple[int, int]:
    """Return where a packet's body begins, and its size in octets."""
    first = data[at]
    if first < 192:
        return at + 1, first
    if first < 224:
        return at + 2, ((first - 192) << 8) + data[at + 1] + 192
    if first < 255:
        raise ValueError("a key is in parts")
    return at + 5, int.from_bytes(data[at + 1 : at + 5], "big")


def _fingerprint(body: bytes) -> str:
    version = body[0]
    if version == 4:
        # The format prescribes SHA-1 here; keys of version 6 have SHA-256.
        digest = hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False)
    elif version == 6:
        digest = hashlib.sha256(b"\x9b" + len(body).to_bytes(4, "big") + body)
    else:
        raise ValueError(f"a key has version {version}")
    return digest.hexdigest().upper()

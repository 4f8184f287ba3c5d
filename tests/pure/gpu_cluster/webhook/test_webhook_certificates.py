# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Certificates of our own over years, and those of files."""

from __future__ import annotations

import contextlib
import datetime
import os
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.verification import PolicyBuilder, Store
from gpu_cluster.webhook.certificates import issue, managed
from gpu_cluster.webhook.certificates.issue import Pair, SecretData
from gpu_cluster.webhook.certificates.serving import Files, Serving
from gpu_plugin._shared._base.errors import NodeError

NAMES = ("gpu-node-webhook.gpu-node.svc", "gpu-node-webhook.gpu-node.svc.cluster.local")
DAY, YEAR = 86400.0, 365 * 86400.0
NOW = 1_800_000_000.0


def trusted(chain: str, bundle: str, now: float, name: str = NAMES[0]) -> None:
    """Verify a server as a client does. VerificationError."""
    when = datetime.datetime.fromtimestamp(now, datetime.UTC).replace(tzinfo=None)
    store = Store(x509.load_pem_x509_certificates(bundle.encode()))
    verifier = PolicyBuilder().store(store).time(when)
    leaf = x509.load_pem_x509_certificates(chain.encode())[0]
    verifier.build_server_verifier(x509.DNSName(name)).verify(leaf, [])


class World:
    """What API servers have, and what the replicas serve: each looks at another moment."""

    def __init__(self) -> None:
        self.kept, self.bundle = SecretData(), ""
        self.serving = ["", ""]

    def look(self, replica: int, now: float) -> None:
        configured = [self.bundle] if self.bundle else []
        self.kept = managed.renewed(self.kept, NAMES, configured, now)
        self.bundle = self.kept.bundle
        self.serving[replica] = self.kept.chain


def rounds(until: float) -> Iterator[tuple[int, float]]:
    """Yield who looks, and when: six times, a quarter of a minute apart, every few days."""
    now = NOW
    while now < NOW + until:
        for number in range(6):
            yield number % 2, now + 15.0 * number
        now += 5 * DAY


def test_at_each_moment_what_is_served_is_trusted() -> None:
    world, leaves = World(), set()
    served: dict[tuple[str, str], list[float]] = {}  # when a chain is served beside a bundle
    for replica, now in rounds(8 * YEAR):
        world.look(replica, now)
        for chain in filter(None, world.serving):
            served.setdefault((chain, world.bundle), []).append(now)
        leaves.add(world.kept.chain)
    for (chain, bundle), moments in served.items():
        for now in (moments[0], moments[-1]):  # and so at each in between
            trusted(chain, bundle, now)
    authorities = [issue.facts(bundle) for bundle in dict.fromkeys(one for _leaf, one in served)]
    assert max(map(len, authorities)) == 2
    assert (
        len({one[0].fingerprint for one in authorities}) == 3
    )  # each of five years, renewed after two thirds
    assert 45 <= len(leaves) <= 60  # each of ninety days, renewed after sixty


def test_a_new_authority_signs_when_it_is_known() -> None:
    world = World()
    world.look(0, NOW)
    world.look(0, NOW + 1)
    world.look(0, NOW + managed.KNOWN + 60)
    first = world.kept
    later = NOW + 0.7 * issue.AUTHORITY_DAYS * DAY
    signed = issue.serving(Pair(first.bundle, first.authority_key), NAMES, later - 80 * DAY)
    kept = replace(first, chain=signed.certificate, key=signed.key)  # it is due as well
    both = managed.renewed(kept, NAMES, [first.bundle], later)
    assert len(issue.facts(both.bundle)) == 2
    assert both.chain == signed.certificate  # API servers don't know the new one yet
    known = managed.renewed(both, NAMES, [both.bundle], later + 30)
    assert known.chain == signed.certificate
    early = managed.renewed(known, NAMES, [both.bundle], later + 30 + managed.KNOWN - 1)
    assert early.chain == signed.certificate
    lost = managed.renewed(known, NAMES, [first.bundle], later + 30 + managed.KNOWN)
    assert lost.chain == signed.certificate  # somebody has put the old bundle back
    done = managed.renewed(early, NAMES, [both.bundle], later + 30 + managed.KNOWN)
    assert done.chain != signed.certificate
    trusted(done.chain, issue.facts(both.bundle)[0].pem, later + 30 + managed.KNOWN)
    assert len(issue.facts(done.bundle)) == 2
    after = managed.renewed(done, NAMES, [done.bundle], later + 30 + managed.KNOWN + managed.FORGET)
    assert len(issue.facts(after.bundle)) == 1


def test_a_secret_that_was_damaged_is_mended() -> None:
    for damage in (
        "",
        "nonsense",
        "another",
    ):
        for field in (
            "bundle",
            "authority_key",
            "chain",
            "key",
        ):
            world = World()
            world.look(0, NOW)
            other = issue.authority("other", NOW)
            signed = issue.serving(other, NAMES, NOW)
            values = {"bundle": other.certificate, "authority_key": other.key}
            values |= {"chain": signed.certificate, "key": signed.key}
            broken = replace(
                world.kept, **{field: values[field] if damage == "another" else damage}
            )  # type: ignore[arg-type]
            mended = managed.renewed(broken, NAMES, [world.bundle], NOW + 60)
            trusted(mended.chain, mended.bundle, NOW + 60)
            assert managed.served(mended) is not None
            assert issue.belongs(mended.authority_key, issue.facts(mended.bundle)[0])


def test_other_names_are_another_certificate() -> None:
    world = World()
    world.look(0, NOW)
    again = managed.renewed(world.kept, NAMES, [world.bundle], NOW + 60)
    assert again.chain == world.kept.chain
    names = (*NAMES, "127.0.0.1")
    other = managed.renewed(again, names, [world.bundle], NOW + 60)
    assert issue.facts(other.chain)[0].names == names


def test_an_authority_signs_servers_and_nothing_else() -> None:
    made = issue.authority("ca", NOW)
    leaf = x509.load_pem_x509_certificate(issue.serving(made, NAMES, NOW).certificate.encode())
    assert isinstance(leaf.public_key(), ec.EllipticCurvePublicKey)
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [one.dotted_string for one in usage] == ["1.3.6.1.5.5.7.3.1"]
    root = x509.load_pem_x509_certificate(made.certificate.encode())
    assert root.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0
    with pytest.raises(NodeError, match="the authority's key can't be read"):
        issue.serving(replace(made, key="x"), NAMES, NOW)


def written(folder: Path, pair: Pair) -> Files:
    paths = folder / "tls.crt", folder / "tls.key"
    for path, text in zip(paths, (pair.certificate, pair.key), strict=True):
        path.write_text(text)
    return Files(*paths)


def test_files_are_read_again(tmp_path: Path) -> None:
    made, serving = issue.authority("ca", NOW), Serving()
    with pytest.raises(NodeError, match="the serving certificate can't be read"):
        Files(tmp_path / "a", tmp_path / "b").look(NOW)
    first, second = (issue.serving(made, NAMES, NOW + day * DAY) for day in (0, 60))
    assert serving.load(written(tmp_path, first).look(NOW))
    assert not serving.load(written(tmp_path, first).look(NOW))
    assert serving.until == NOW + 90 * DAY
    assert serving.load(written(tmp_path, second).look(NOW))
    assert serving.until == NOW + 150 * DAY
    mixed = Pair(first.certificate, second.key)  # one of the two files is not written yet
    with pytest.raises(NodeError, match="its key is another one's"):
        serving.load(mixed)
    assert serving.until == NOW + 150 * DAY


def test_no_key_is_left_open() -> None:
    made, serving = issue.authority("ca", NOW), Serving()
    before = len(os.listdir("/proc/self/fd"))
    serving.load(issue.serving(made, NAMES, NOW))
    assert len(os.listdir("/proc/self/fd")) == before


def shown(context: ssl.SSLContext) -> str:
    """Return the certificate that a handshake with a server of this context shows, as PEM."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    ends = [trusting.wrap_bio(back, there), context.wrap_bio(there, back, server_side=True)]
    for _flight in range(3):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ssl.DER_cert_to_PEM_cert(ends[0].getpeercert(binary_form=True) or b"")


def test_a_handshake_that_has_begun_keeps_its_certificate_with_its_key() -> None:
    made, serving = issue.authority("ca", NOW), Serving()
    first, second = (issue.serving(made, NAMES, NOW + day * DAY) for day in (0, 60))
    serving.load(first)
    begun = serving.context
    serving.load(second)
    assert shown(begun) == issue.facts(first.certificate)[0].pem
    assert shown(serving.context) == issue.facts(second.certificate)[0].pem

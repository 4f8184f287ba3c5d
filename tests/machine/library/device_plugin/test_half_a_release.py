# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An environment that can't be made: what is said of it, by the genuine venv and pip, and what is left."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine import release
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine.release import fill
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host

from tests.fakes.library.hostile_index import GENUINE, GOOD, Index, Install, listed, payload


@pytest.fixture
def small(tmp_path: Path) -> t.Iterator[Path]:
    """Return a folder with room for 8 MiB, which is too little for pip."""
    if os.geteuid() != 0:
        pytest.skip("mounting takes root")
    folder = tmp_path / "prefix"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "small", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_called_one_and_gets_its_room_back(small: Path, tmp_path: Path) -> None:
    there = small / "releases/r1"
    archive = payload(tmp_path, listed(GOOD), {})
    with pytest.raises(NodeError) as caught:
        fill(Host(), str(there), sys.executable, archive, None)
    said = str(caught.value)
    assert f"the file system of {there} is full. Next step: free 300 MiB there" in said
    assert not there.exists()


@pytest.fixture
def untrusted(tmp_path: Path) -> t.Iterator[Index]:
    """Return an index whose certificate nobody has signed but itself."""
    key, certificate = tmp_path / "index.key", tmp_path / "index.crt"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    made += ["-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "2"]
    made += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Index({GENUINE: GOOD}, context=context) as index:
        yield index


@pytest.mark.long
def test_a_certificate_that_is_not_trusted_is_what_is_told(
    install: Install, untrusted: Index, tmp_path: Path
) -> None:
    with pytest.raises(NodeError) as caught:
        install(untrusted.url)
    said = str(caught.value)
    assert "the node does not trust the certificate of the package index: self-signed" in said
    assert "into the node's own store (update-ca-certificates, or update-ca-trust" in said
    assert "or give the role a wheelhouse (device_plugin_wheelhouse)" in said
    assert "WARNING" not in said
    assert not (tmp_path / "prefix/releases/r1").exists()


@pytest.mark.parametrize("named", [True, False])
def test_what_the_node_trusts_pip_trusts(
    install: Install,
    untrusted: Index,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: bool,
) -> None:
    ours = str(tmp_path / "index.crt")
    # What is in the environment of a play has the last word.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", ours if named else "")
    monkeypatch.setattr(release, "STORES", ("/nowhere", os.devnull if named else ours))
    install(untrusted.url)
    assert (tmp_path / "prefix/current/bin/gpu-plugin").exists()


def test_a_store_that_is_older_than_pips_own_is_not_the_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "old.crt"
    store.touch()
    monkeypatch.setattr(release, "STORES", (str(store),))
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    asked: list[str | None] = []

    class Pip(Host):
        def run(self, argv: t.Sequence[str], **how: t.Any) -> Completed:
            asked.append(how["env"].get("REQUESTS_CA_BUNDLE"))
            if asked[-1]:
                cause = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: too old"
                raise NodeError("pip failed", cause=cause)
            return Completed(0, "", "")

    release._libraries(Pip(), str(tmp_path), None)
    assert asked == [str(store), None]


@pytest.mark.long
def test_an_index_that_does_not_answer(install: Install) -> None:
    with pytest.raises(NodeError) as caught:
        install("http://127.0.0.1:1/simple")
    said = str(caught.value)
    assert "the package index does not answer: Connection refused" in said
    assert "WARNING" not in said
    assert "a play of your own gives it HTTPS_PROXY" in said

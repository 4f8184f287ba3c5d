# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a collection says of itself, which becomes names of files."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._bundle.collection import (
    FILES,
    LIST,
    Collection,
    Member,
    parse,
)

INFO: dict[str, Any] = {"namespace": "gpu", "name": "node", "version": "0.3.0-rc.1+a"}


def collection(about: dict[str, Any], file: str = "plugins/run.sh") -> Collection:
    """Return a collection of one file that says this of itself."""
    data = b"#!/bin/sh\n"
    entry = {"name": file, "ftype": "file", "chksum_sha256": hashlib.sha256(data).hexdigest()}
    listed = json.dumps({"files": [entry]}).encode()
    checksum = {"chksum_sha256": hashlib.sha256(listed).hexdigest()}
    whole = {"collection_info": {**INFO, **about}, "file_manifest_file": checksum}
    there = {LIST: json.dumps(whole).encode(), FILES: listed, file: data}
    return parse("/there", lambda name: Member(there[name]) if name in there else None)


def test_a_collection_s_tarball_has_its_name_and_version() -> None:
    found = collection({"dependencies": {"ansible.posix": "*"}})
    assert found.file == "gpu-node-0.3.0-rc.1+a.tar.gz"
    assert found.needs == ("ansible.posix",)


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"version": "../../tmp/evil"}, "version: '../../tmp/evil'"),
        ({"version": "1.0"}, "version: '1.0'"),
        ({"version": "1.0.0\n"}, "version: "),
        ({"name": "../evil"}, "name: 'gpu.../evil'"),
        ({"namespace": "/tmp/gpu"}, "name: '/tmp/gpu.node'"),
        ({"dependencies": {"..etc": "*"}}, "name: '..etc'"),
    ],
)
@pytest.mark.attack("bundle-made-in-a-folder-of-others")
def test_what_it_is_called_becomes_no_path(about: dict[str, Any], said: str) -> None:
    with pytest.raises(NodeError) as caught:
        collection(about)
    assert f"collection: /there: {said}" in str(caught.value)
    assert "Next step: install the collection again" in str(caught.value)


@pytest.mark.parametrize("file", ["../evil", "/etc/passwd", "plugins/../../evil", "plugins//x", ""])
def test_its_files_are_within_it(file: str) -> None:
    with pytest.raises(NodeError) as caught:
        collection({}, file)
    assert f"collection: /there: file: {file!r} is not valid" in str(caught.value)

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Runs that are killed at any request, and the next ones, which finish them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.kubernetes.killed_client import KilledError, kill_after
from tests.fakes.kubernetes.standin_cluster import Cluster

Drain = Callable[..., dict[str, Any]]


def is_killed(drain: Drain, state: str, request: int) -> bool:
    """Return whether a run to a state is killed at a request; it ends well if it makes fewer."""
    with pytest.MonkeyPatch.context() as patched:
        kill_after(patched, request)
        try:
            drain(state=state)
        except KilledError:
            return True
    return False


@pytest.mark.parametrize("state", ["drained", "uncordoned"])
def test_a_run_that_was_killed_at_any_request_is_finished(
    cluster: Cluster, drain: Drain, state: str
) -> None:
    killed = 0
    while True:
        killed += 1
        drain(state="cordoned" if state == "uncordoned" else "uncordoned")
        for name in ("train", "serve"):
            cluster.add_pod(name, gpus=1)
        if not is_killed(drain, state, killed):
            break
        done = drain(state=state)
        assert done["cordoned"] == done["cordoned_by_us"] == (state == "drained"), killed
        assert state == "uncordoned" or cluster.pods == {}
        assert not drain(state=state)["changed"]
    assert killed > (10 if state == "drained" else 5)


@pytest.mark.parametrize("state", ["held", "admitted"])
def test_taint_of_a_run_that_was_killed_at_any_request_is_finished(
    cluster: Cluster, drain: Drain, state: str
) -> None:
    killed = 0
    while True:
        killed += 1
        drain(state="held" if state == "admitted" else "admitted")
        if not is_killed(drain, state, killed):
            break
        assert drain(state=state)["held"] == (state == "held"), killed
        assert not drain(state=state)["changed"]
    assert killed > 5


def test_the_login_program_of_a_kubeconfig_is_run(
    cluster: Cluster, drain: Drain, tmp_path: Path
) -> None:
    """As those of cloud providers, which kubeconfigs of administrators have."""
    given = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "good"},
    }
    program = tmp_path / "login"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(given)}\nEND\n")
    program.chmod(0o755)
    access = cluster.access()
    way = {"apiVersion": given["apiVersion"], "command": str(program), "interactiveMode": "Never"}
    access["users"][0]["user"] = {"exec": way}
    cluster.kubeconfig.write_text(json.dumps(access))
    assert drain(state="cordoned")["changed"]

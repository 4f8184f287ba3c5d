# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a test does with an API server as its administrator, be it a genuine one or the stand-in."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import urllib3
from gpu_plugin._shared._cluster.machine.api import ApiError
from gpu_plugin.cluster.access import Access

from tests.fakes.kubernetes.standin.admission.validation import GATES
from tests.fakes.kubernetes.standin.api import StandIn
from tests.fakes.kubernetes.standin.authorizers import User, account
from tests.fakes.kubernetes.standin.resources import RESOURCES

Json = dict[str, Any]
# Where objects are, by kind; a namespace goes into the braces.
KINDS = {one.kind: one.path("{}") for one in RESOURCES.values()}
ADMINS, OFF = "system:masters", "--feature-gates={}=false"


class Administered:
    """``admin`` may do anything; ``kubeconfig()`` gives others their access. ``cluster`` is how it is reached."""

    cluster: Json
    admin: Access

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End all that was started."""
        raise NotImplementedError

    def access(self, name: str, group: str) -> Access:
        """Return the access of somebody in a group."""
        return Access(str(self.kubeconfig(name.replace(":", "-"), self.identity(name, group))))

    def identity(self, name: str, group: str) -> Mapping[str, str]:
        """Return what somebody in a group shows."""
        raise NotImplementedError

    def account(self, name: str, namespace: str) -> Access:
        """Return the access of a ServiceAccount, by a token of its own."""
        return Access(str(self.kubeconfig(name, {"token": self.token(name, namespace)})))

    def token(self, name: str, namespace: str) -> str:
        """Return a token of a ServiceAccount."""
        raise NotImplementedError

    def kubeconfig(self, name: str, user: Mapping[str, str]) -> Path:
        """Write the access of somebody."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": self.cluster}],
            "users": [{"name": name, "user": dict(user)}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": name}}],
        }
        path = self.folder / f"{name}.conf"
        path.write_text(json.dumps(config))
        return path

    def now(self) -> float:
        """Return what time the server says it is."""
        pool = urllib3.PoolManager(cert_reqs="CERT_NONE")
        with warnings.catch_warnings(action="ignore"):
            told = pool.request("GET", f"{self.cluster['server']}/version")
        return parsedate_to_datetime(told.headers["Date"]).timestamp()

    def create(self, one: Json) -> Json:
        """Create an object, or return the one that is there."""
        meta = one["metadata"]
        path = KINDS[one["kind"]].format(meta.get("namespace", ""))
        try:
            made: Json = self.admin.ask(f"creating {meta['name']}", "POST", path, one)
        except ApiError as error:
            if error.status != 409:
                raise
            made = self.get(one["kind"], meta["name"], meta.get("namespace", ""))
        return made

    def get(self, kind: str, name: str = "", namespace: str = "") -> Json:
        """Return an object, or a list where no name is given."""
        path = "/".join(filter(None, (KINDS[kind].format(namespace), name)))
        answer: Json = self.admin.ask(f"reading {kind}", "GET", path.replace("namespaces//", ""))
        return answer


class StandInApi(Administered):
    """The stand-in, whose users have tokens. Of flags it knows those that turn a feature gate off."""

    def __init__(self, folder: Path, *flags: str) -> None:
        super().__init__(folder)
        self.server = StandIn(folder)
        for name, fields in GATES.items():
            if OFF.format(name) in flags:
                self.server.drops += fields
        self.cluster = {"server": f"http://127.0.0.1:{self.server.port}"}
        self.admin = self.access("admin", ADMINS)

    def stop(self) -> None:
        self.server.stop()

    def identity(self, name: str, group: str) -> Mapping[str, str]:
        self.server.users[name] = User(name, (group,))
        return {"token": name}

    def token(self, name: str, namespace: str) -> str:
        token = f"{namespace}-{name}"
        self.server.users[token] = account(name, namespace)
        return token

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The errands of which the walks tell, each with the stand-ins that a test would take: no root, no apt, no container.

An errand ends where its value has arrived. What the product does in threads of its own while it looks at GPUs is done
at once, so that a walk is the same each time.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import grpc
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.modules import mig, nvidia_driver
from gpu_cluster.hami.settings import Settings
from gpu_cluster.webhook.admission import Admission
from gpu_cluster.webhook.namespaces import Namespaces
from gpu_cluster.webhook.templates import Templates
from gpu_plugin import daemon
from gpu_plugin._shared._base.dra.names import pool_name
from gpu_plugin.cluster.access import Access
from gpu_plugin.config.sources import Source
from gpu_plugin.dra import service
from gpu_plugin.driver import asking
from gpu_plugin.proto.dra_v1 import api_pb2 as dra_pb2
from gpu_plugin.proto.dra_v1 import rpc as dra_rpc
from gpu_plugin.proto.v1beta1 import api_pb2, rpc
from gpu_plugin.tools.chores import Worker
from nvsim.state import new_board

from tests.docs.walks.tracer import Tracer, Walk
from tests.fakes.cluster.hami_pods import MPS_NODES, limits, pod
from tests.fakes.daemon.driver_in_process import driver
from tests.fakes.dra import allocated
from tests.fakes.kubernetes import reviews
from tests.fakes.kubernetes.standin_api import NODE, Api
from tests.fakes.library.fakes import TRIXIE, FakeHost
from tests.fakes.library.in_process import said_by
from tests.support.paths import FAKES
from tests.support.waiting import LIMIT, eventually

RECORDED, VERSION = "550.163.01", "550.163.77"  # no table of releases has the other one
PROFILE, PROGRAM = "3g.40gb", "/opt/gpu-node/bin/gpu-plugin"
UUID = new_board("h100-80", 1)[0].uuid
CLAIM, UID = "training", "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
SHARE = "4b5a6978-aaaa-bbbb-cccc-0123456789ab"
DRA = "version: v1\ngpuNode: {allocation: dra, dra: {enforcement: none}}\n"
MEMORY = 10243  # MiB


class Arrived(BaseException):
    """The value is where the errand ends."""


@dataclass(frozen=True)
class Errand:
    """``value`` says what is followed, ``marks`` are the texts that it is known by; ``run`` does it in a folder."""

    title: str
    value: str
    marks: tuple[str, ...]
    run: Callable[[Path, Tracer], None]

    def walk(self, folder: Path) -> Walk:
        """Do the errand, and return the way of its value. AssertionError: it has not arrived."""
        tracer = Tracer(*self.marks)
        self.run(folder, tracer)
        return tracer.walk


# --- modules ---


class FreshDebian(FakeHost):
    """A Debian 13 node with an H100; its apt answers as a genuine one was recorded, with another version."""

    def __init__(self) -> None:
        commands = {
            ("systemctl", "show"): "ActiveState=inactive\nUnitFileState=\n",
            ("dpkg-query",): "dpkg\tamd64\tdpkg\t1.22\tii \n",
            ("apt-get",): self._apt_get,
            ("apt-cache",): "",
            ("apt-cache", "policy"): self._policy,
        }
        super().__init__(TRIXIE, commands)
        self._offered: dict[str, str] = {}

    def _policy(self, words: tuple[str, ...]) -> Completed:
        return Completed(0, "".join(self._offered.get(name, "") for name in words[2:]), "")

    def _apt_get(self, words: tuple[str, ...]) -> Completed:
        if "update" in words:
            blocks = re.split(r"^(?=\S)", _recorded("apt-policy-trixie.txt"), flags=re.MULTILINE)
            self._offered = {one.partition(":")[0]: one for one in blocks}
        elif "--simulate" in words:
            return Completed(0, _recorded("apt-simulate-install-trixie.txt"), "")
        elif "install" in words:
            raise Arrived
        return Completed(0, "", "")


def _recorded(name: str) -> str:
    return (FAKES / "packages/recordings" / name).read_text().replace(RECORDED, VERSION)


def _module(module: ModuleType, host: FakeHost, folder: Path, tracer: Tracer, **given: Any) -> None:
    with patch.object(module, "Host", lambda: host), contextlib.suppress(Arrived):
        with tracer.following():
            said = said_by(module, given, folder)
        raise AssertionError(said)


class Day(datetime.date):
    """The day of the errands, on which a branch of the driver is as old as it is."""

    @classmethod
    def today(cls) -> Day:
        return cls(2026, 11, 24)


def _driver_version(folder: Path, tracer: Tracer) -> None:
    with patch.object(datetime, "date", Day):
        _module(nvidia_driver, FreshDebian(), folder, tracer, version=VERSION)


def _mig_layout(folder: Path, tracer: Tracer) -> None:
    def called(function: str) -> None:
        if function == "nvmlDeviceCreateGpuInstanceWithPlacement":
            raise Arrived

    layout = {"devices": "all", "mig-enabled": True, "mig-devices": {PROFILE: 2}}
    host = FakeHost({PROGRAM: ""}, {("systemctl",): "ActiveState=inactive\n"})
    with driver(folder, asked=called):
        _module(mig, host, folder, tracer, config=[layout])


# --- services on the node ---


@contextlib.contextmanager
def _gpu(folder: Path) -> Iterator[None]:
    """Let there be a GPU that is looked at without threads in a with statement."""

    def at_once(_worker: Worker, work: Callable[[], object]) -> bool:
        work()
        return True

    inline = patch.object(Worker, "start", at_once), patch.object(asking, "begin", lambda do: do())
    with driver(folder), inline[0], inline[1]:
        yield


def _source(folder: Path, text: str = "") -> Source:
    path = folder / "config.yaml"
    path.write_text(text)
    return Source(Namespace(config=str(path)), {"GPU_PLUGIN_METRICS_ADDRESS": "off"})


def _answered(socket: Path, method: str, request: Any, answer: Any) -> Any:
    """Ask a service as the kubelet does."""
    with grpc.insecure_channel(f"unix://{socket}") as channel:
        call = channel.unary_unary(method, type(request).SerializeToString, answer.FromString)
        return call(request, timeout=LIMIT)


def _device(folder: Path, tracer: Tracer) -> None:
    plugins = folder / "kubelet/device-plugins"
    plugins.mkdir(parents=True)
    settings = daemon.Settings(
        plugins / "kubelet.sock", folder / "run/status.json", folder / "root"
    )
    request = api_pb2.AllocateRequest()
    request.container_requests.add(devices_ids=[UUID])
    with _gpu(folder):
        serving = daemon.Daemon(settings, _source(folder))
        with tracer.following():
            serving.begin()
            socket = plugins / "nvidia-gpu.sock"
            answer = _answered(socket, rpc.ALLOCATE, request, api_pb2.AllocateResponse)
        assert UUID in str(answer)
        serving.close()


def _claim(folder: Path, tracer: Tracer) -> None:
    root, kubelet = folder / "root", folder / "kubelet"
    paths = service.Paths(
        NODE,
        str(folder / "kubelet.conf"),
        root,
        socket=kubelet / "plugins/gpu.node/dra.sock",
        registration=kubelet / "plugins_registry/gpu.node.sock",
        checkpoint=folder / "lib/checkpoint.json",
        status_file=folder / "run/dra.json",
    )
    for one in (paths.socket.parent, paths.registration.parent, root / "etc/cdi"):
        one.mkdir(parents=True)
    edits = {"deviceNodes": [{"path": "/dev/nvidia0"}]}
    spec = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu"}
    spec["devices"] = [{"name": UUID, "containerEdits": edits}]
    (root / "etc/cdi/nvidia.json").write_text(json.dumps(spec))
    request = dra_pb2.NodePrepareResourcesRequest()
    request.claims.add(namespace="default", name=CLAIM, uid=UID)
    with _api(folder) as api, _gpu(folder):
        capacity = {"memory": "10Gi", "cores": "30", "shares": "1"}
        share = {"capacity": capacity, "share_id": SHARE}
        device = allocated.result(pool_name(NODE), "gpu-0-share", **share)
        api.claims[f"default/{CLAIM}"] = {
            "metadata": {"namespace": "default", "name": CLAIM, "uid": UID},
            "status": {"allocation": {"devices": {"results": [device]}}},
        }
        serving = service.Service(paths, _source(folder, DRA))
        serving.begin()
        eventually(lambda: len(api.slices))  # by then it has read how it gets to the API
        with tracer.following():
            kind = dra_pb2.NodePrepareResourcesResponse
            answer = _answered(paths.socket, dra_rpc.PREPARE, request, kind)
        assert (root / f"var/run/cdi/gpu.node-claim_{UID}.json").exists(), answer
        serving.close()


# --- in the cluster ---


@contextlib.contextmanager
def _api(folder: Path) -> Iterator[Api]:
    api = Api(folder)
    api.user = api.admin
    try:
        yield api
    finally:
        api.stop()


def _hami(folder: Path, tracer: Tracer) -> None:
    with _api(folder) as api:
        access = Access(str(api.kubeconfig)).connect()
        admission = Admission(
            Settings(),
            Templates(access, 3600.0),
            lambda: MPS_NODES,
            Namespaces(access, Settings()).check,
        )
        body = reviews.asked(pod(limits(gpu=1, gpumem=MEMORY)))
        with tracer.following():
            answer = admission.answer(body)
        made = [path for method, path in api.requests if method == "POST"]
        assert any("resourceclaimtemplates" in one for one in made), answer
        access.close()


ERRANDS = (
    Errand(
        "A driver version, from the variable to apt",
        "`nvidia_driver_version` on a fresh Debian 13 node with an H100; the version is followed until"
        " `apt-get install` is called with it.",
        (VERSION,),
        _driver_version,
    ),
    Errand(
        "A MIG layout, from the variable to NVML",
        f"`mig_config` with two `{PROFILE}` for one H100; the profile is followed until"
        " nvmlDeviceCreateGpuInstanceWithPlacement is called.",
        (PROFILE,),
        _mig_layout,
    ),
    Errand(
        "A device, from NVML to Allocate",
        "An H100 that the device plugin finds at its start; its UUID is followed until the kubelet has the answer to"
        " Allocate.",
        (UUID,),
        _device,
    ),
    Errand(
        "A claim, from NodePrepareResources to its CDI file",
        "A claim on a share of an H100; its name and UID are followed until the kubelet has the answer, for which the"
        " file is there.",
        (UID, CLAIM),
        _claim,
    ),
    Errand(
        "HAMi's resources, from the pod to the claim template",
        f"A pod with `nvidia.com/gpumem: {MEMORY}`; the amount is followed until the ResourceClaimTemplate is made and"
        " the review is answered.",
        (str(MEMORY),),
        _hami,
    ),
)

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node whose GPUs are given to claims: simulated driver, stand-in kubelet and API, and the DRA driver's process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_plugin._shared._base.dra.names import pool_name
from nvsim.testing import Sim, client
from standin_kubelet.dra import Claim, DraKubelet, Plugin

from tests.fakes.dra import allocated
from tests.fakes.kubernetes.standin_api import NODE, Api
from tests.support import helper_process
from tests.support.paths import REPOSITORY
from tests.support.waiting import LIMIT, eventually

DRIVER, POOL = "gpu.node", pool_name(NODE)
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
MIB = 1 << 20
Json = dict[str, Any]
MakeDra = Callable[..., "DraNode"]


class DraNode:
    """``folder`` must have a short path, for the sockets' sake. ``config`` is below gpuNode."""

    def __init__(self, folder: Path, sim: Sim) -> None:
        self.folder, self.sim = folder, sim
        self.api = Api(folder)
        self.root = folder / "k"
        self.kubelet = DraKubelet(self.root / "plugins_registry", call=LIMIT)
        (self.root / "plugins/gpu.node").mkdir(parents=True)
        self.checkpoint = folder / "lib/checkpoint.json"
        self.status_file, self.lock = folder / "run/dra.json", folder / "run/mig.lock"
        self.config, self.log = folder / "config.yaml", folder / "log"
        self.cdi = sim.root / "var/run/cdi"
        self.process: subprocess.Popen[bytes] | None = None
        self.pods: dict[str, str] = {}  # the UIDs of claims' pods
        self.env = {**sim.env, "PYTHONDONTWRITEBYTECODE": ""}
        self.describe()

    # --- the node ---

    def uuids(self) -> list[str]:
        code = "n.nvmlInit()\ncount = n.nvmlDeviceGetCount()\n"
        code += (
            "answer([n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(i)) for i in range(count)])"
        )
        found: list[str] = client(self.sim, code)
        return found

    def describe(self, library: str = "libcuda.so.550.163.01") -> None:
        """Write the node's own CDI specification."""
        devices = [
            {
                "name": one,
                "containerEdits": {
                    "deviceNodes": [{"path": f"/dev/nvidia{i}", "permissions": "rw"}]
                },
            }
            for i, one in enumerate(self.uuids())
        ]
        mount = {"hostPath": f"/usr/lib/{library}", "containerPath": f"/usr/lib/{library}"}
        common = {"env": ["NVIDIA_VISIBLE_DEVICES=void"], "mounts": [{**mount, "options": ["ro"]}]}
        spec = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices}
        path = self.sim.root / "etc/cdi/nvidia.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**spec, "containerEdits": common}))

    def layout(self, gpu: int, *profiles: str) -> None:
        words = [sys.executable, str(REPOSITORY / "tests/fakes/daemon/mig_layout.py"), str(gpu)]
        subprocess.run([*words, *profiles], env=self.env, check=True, timeout=LIMIT)

    def mig_mode(self, gpu: int) -> None:
        """Turn MIG mode on, without instances."""
        code = f"n.nvmlInit()\nn.nvmlDeviceSetMigMode(n.nvmlDeviceGetHandleByIndex({gpu}), 1)"
        client(self.sim, code)

    def instances(self) -> list[tuple[int, int, int]]:
        """Return the GPU instances of the first GPU: id, profile and first slice."""
        code = (
            "from gpu_plugin._shared._machine.nvml.real import open_nvml\n"
            "with open_nvml() as nvml:\n"
            "    gpu = nvml.gpus()[0][0]\n"
            "    answer([(o.id, o.profile_id, o.start) for o in nvml.gpu_instances(gpu)])"
        )
        return [tuple(one) for one in client(_With(self.sim, self.env), code)]  # type: ignore[arg-type]

    # --- claims ---

    def claim(
        self,
        name: str,
        *devices: str,
        capacity: Json | None = None,
        parameters: Json | None = None,
        **more: Any,
    ) -> Claim:
        """Make a claim that is allocated, and its pod on this node; shares have ``capacity``."""
        uid = str(uuid.uuid4())
        results = [
            {
                **allocated.result(
                    POOL,
                    device,
                    request=f"r{number}",
                    capacity=capacity,
                    share_id=str(uuid.uuid4()),
                ),
                **more,
            }
            for number, device in enumerate(devices)
        ]
        config = allocated.config(parameters)
        pods = [allocated.user(name, str(uuid.uuid4()))]
        allocation = {"devices": {"results": results, "config": config}}
        used = {"nodeName": NODE, "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
        self.pods[name] = pods[0]["uid"]
        self.api.pods[f"default/{name}"] = {"metadata": {"uid": pods[0]["uid"]}, "spec": used}
        self.api.objects[f"{CLAIMS}/{name}"] = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"namespace": "default", "name": name, "uid": uid},
            "status": {"allocation": allocation, "reservedFor": pods},
        }
        return "default", name, uid

    def claims_of_one_container(self, first: str, second: str) -> tuple[Claim, Claim]:
        """Allocate two claims with a device each to the container main of the pod first."""
        claims = self.claim("first", first), self.claim("second", second)
        named = [{"name": name, "resourceClaimName": name} for _namespace, name, _uid in claims]
        container = {"name": "main", "resources": {"claims": [{"name": c["name"]} for c in named]}}
        pod = self.api.pods["default/first"]
        spec = {**pod["spec"], "resourceClaims": named, "containers": [container]}
        self.api.pods["default/first"] = {**pod, "spec": spec}
        objects = [self.api.objects[f"{CLAIMS}/{name}"] for _namespace, name, _uid in claims]
        objects[1]["status"]["reservedFor"] = objects[0]["status"]["reservedFor"]
        self.api.objects[f"{CLAIMS}/second"] = objects[1]
        return claims

    def start_pod(self, claim: Claim) -> list[str]:
        return self.kubelet.start_pod(DRIVER, self.pods.get(claim[1], claim[1]), claim)

    def end_pod(self, claim: Claim) -> None:
        self.kubelet.end_pod(DRIVER, self.pods.get(claim[1], claim[1]))

    def spec(self, claim: Claim) -> Json:
        found: Json = json.loads(self.file(claim).read_text())
        return found

    def edits(self, claim: Claim) -> Json:
        """Return what the containers of a claim with one device get by it."""
        (found,) = self.spec(claim)["devices"]
        edits: Json = found["containerEdits"]
        return edits

    def pools(self) -> set[str]:
        """Return the pools of what is published."""
        with self.api.news:
            return {one["spec"]["pool"]["name"] for one in self.api.slices.values()}

    def devices(self) -> dict[str, Json]:
        """Return the devices that are published, by name."""
        with self.api.news:
            specs = [one["spec"] for one in self.api.slices.values()]
        return {one["name"]: one for spec in specs for one in spec.get("devices", ())}

    def file(self, claim: Claim) -> Path:
        return self.cdi / f"gpu.node-claim_{claim[2]}.json"

    def kept(self) -> dict[str, Json]:
        """Return what the checkpoint has of claims, by name."""
        if not self.checkpoint.exists():
            return {}
        found = json.loads(self.checkpoint.read_text())["claims"]
        return {one["name"]: one for one in found.values()}

    # --- the process ---

    def start(self, dra: str = "{enforcement: none}", *flags: str, wait: bool = True) -> None:
        self._run(dra, "-m", "gpu_plugin", *self.words(), *flags)
        if wait:
            eventually(self.registered)

    def start_to_be_killed(self, at: int, dra: str = "{enforcement: none}") -> None:
        """Start it so that it is killed at a change of the node, which are counted from now on."""
        armed = self.folder / "armed"
        armed.unlink(missing_ok=True)
        program = REPOSITORY / "tests/fakes/dra/killed_at.py"
        self._run(dra, program, at, armed, *self.words())
        eventually(self.registered)
        armed.touch()

    def words(self) -> list[object]:
        words: list[object] = ["dra", "--config", self.config, "--kubeconfig", self.api.kubeconfig]
        words += ["--node-name", NODE, "--kubelet-root", self.root, "--host-root", self.sim.root]
        words += ["--checkpoint", self.checkpoint, "--status-file", self.status_file]
        words += ["--mig-lock", self.lock, "--dra-metrics-address", "off", "--rescan", "0.3"]
        return words

    def _run(self, dra: str, *words: object) -> None:
        self.config.write_text(f"version: v1\ngpuNode: {{allocation: dra, dra: {dra}}}\n")
        with self.log.open("ab") as log:
            command = [sys.executable, *map(str, words)]
            self.process = helper_process.start(
                command, env=self.env, stdout=log, stderr=log, ready=helper_process.executed
            )

    def registered(self) -> bool:
        found = self.kubelet.plugins.get(DRIVER)
        return bool(found and found.connected and self.status().get("registered"))

    @property
    def plugin(self) -> Plugin:
        return self.kubelet.plugins[DRIVER]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.status_file.unlink(missing_ok=True)

    def ended(self) -> int:
        """Wait for the end of the process; return its status."""
        assert self.process is not None
        found = self.process.wait(LIMIT)
        self.status_file.unlink(missing_ok=True)
        return found

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def status(self) -> Json:
        try:
            found: Json = json.loads(self.status_file.read_text())
        except FileNotFoundError:
            return {}
        return found

    def looks(self) -> int:
        """How often the driver's process has asked for the number of GPUs since its start."""
        assert self.process is not None
        return self.sim.looks(self.process.pid)

    def logged(self) -> str:
        return self.log.read_text()

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
        self.kubelet.stop()
        self.api.stop()


class _With:
    """A simulation with another environment of its clients."""

    def __init__(self, sim: Sim, env: dict[str, str]) -> None:
        self.env = env
        self.sim = sim

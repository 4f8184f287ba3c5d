# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A container in a pod of CRI-O: how it is made, what ends it, and that nothing of it is left."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.validate import pods
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.containers import Answer
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.daemon import Mount, Share
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine import program
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine.containers import (
    FOLDER,
    Trial,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.crio import Crio

from tests.fakes.library.runtime_host import RuntimeHost

SAID = json.dumps({"uuids": ["GPU-1"], "problem": "", "cuda": "", "untried": ""})
MAPS = "7f0-7f1 r-xp 0 08:01 1 /usr/lib/x86_64-linux-gnu/{}\n"
IMAGE = "registry.k8s.io/pause:3.10.1"
STATUS = f'[crio.image]\npause_image = "{IMAGE}"\n'
# As crictl 1.36 says it.
UNRESOLVABLE = (
    'time="2026-11-29T21:00:00Z" level=fatal msg="creating container: rpc error: code = Unknown desc = '
    'CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all"\n'
)


class CrictlHost(RuntimeHost):
    """A machine with a CRI-O and a crictl that knows one pod; what happens to it is a function's."""

    def __init__(self, files: dict[str, str] | None = None) -> None:
        super().__init__(files, crio="1.36.3")
        libraries = ("libc.so.6", "ld-linux-x86-64.so.2")
        self.files["/proc/self/maps"] = "".join(map(MAPS.format, libraries))
        self.commands["crictl",] = self._crictl
        self.commands["crio", "status"] = STATUS
        self.images = [IMAGE]
        self.pods: list[str] = []
        self.configs: dict[str, Any] = {}
        self.created = Completed(0, "c1\n", "")
        self.started: Callable[[], None] = lambda: self.log(SAID)
        self.status: dict[str, Any] = {"state": "CONTAINER_EXITED", "exitCode": 0}

    def log(self, *lines: str) -> None:
        """Have the container print lines."""
        text = "".join(f"2026-11-29T21:00:00.1+00:00 stdout F {line}\n" for line in lines)
        self.files[f"{self.configs['pod']['log_directory']}/{pods.LOG}"] = text

    def _crictl(self, words: tuple[str, ...]) -> Completed:
        endpoint, verb, *args = words[1], *words[4:]
        if endpoint != "--runtime-endpoint=unix:///run/crio/crio.sock":
            return Completed(1, "", "no such file or directory")
        if verb == "inspecti":
            return Completed(int(args[0] not in self.images), "{}", "no such image")
        if verb == "pods":
            return Completed(0, "\n".join(self.pods), "")
        if verb == "rmp":
            self.pods = [name for name in self.pods if name not in args]
        if verb == "runp":
            self.configs["pod"] = json.loads(self.files[args[0]])
            self.pods.append("p1")
            return Completed(0, "p1\n", "")
        if verb == "inspectp":
            state = {"status": {"state": "SANDBOX_READY"}}
            return Completed(int(args[-1] not in self.pods), json.dumps(state), "")
        if verb == "create":
            self.configs["container"] = json.loads(self.files[args[2]])
            return self.created
        if verb == "start":
            self.started()
        if verb == "inspect":
            return Completed(int(not self.pods), json.dumps({"status": self.status}), "")
        return Completed(0, "", "")

    def verbs(self) -> list[str]:
        """Return what crictl was called for."""
        return [words[4] for words in self.ran if words[0] == "crictl"]

    def tried(self, device: str = "") -> Answer:
        """Return what a container of this machine answers."""
        return Trial(self).run(Crio(self), device)  # type: ignore[arg-type]


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> CrictlHost:
    """Return a machine whose kernel has the driver."""
    monkeypatch.setattr(program, "CONTROL", "/dev/null")
    return CrictlHost()


def test_container_has_all_gpus_and_the_machines_python(node: CrictlHost) -> None:
    assert node.tried("GPU-1") == Answer(("GPU-1",), cuda="")
    pod, container = node.configs["pod"], node.configs["container"]
    assert pod["linux"]["security_context"]["namespace_options"]["network"] == 2  # NODE
    assert container["CDI_devices"] == [{"name": "nvidia.com/gpu=all"}]
    assert container["image"] == {"image": IMAGE, "user_specified_image": IMAGE}
    assert container["command"][-1] == "GPU-1"
    assert {one["container_path"] for one in container["mounts"]} >= {
        "/host/usr/lib/x86_64-linux-gnu"
    }
    assert all(one["readonly"] for one in container["mounts"])
    assert node.pods == node.listdir(FOLDER) == []
    assert "pull" not in node.verbs()
    (create,) = (words for words in node.ran if "create" in words)
    assert "--no-pull" in create  # whatever /etc/crictl.yaml says


def test_client_of_mps_in_cri_o_has_what_a_pod_gets_with_a_share(node: CrictlHost) -> None:
    pipe, memory = Mount("/tmp/nvidia-mps", "/run/x/pipe", True), Mount("/dev/shm", "/run/x/shm")
    share = Share("GPU-1", {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps"}, (pipe, memory))
    Trial(node).run(Crio(node), "GPU-1", share)  # type: ignore[arg-type]
    container = node.configs["container"]
    assert {"key": "CUDA_MPS_PIPE_DIRECTORY", "value": "/tmp/nvidia-mps"} in container["envs"]
    assert [tuple(mount.values()) for mount in container["mounts"][-2:]] == [
        ("/run/x/pipe", "/tmp/nvidia-mps", True),
        ("/run/x/shm", "/dev/shm", False),
    ]


def test_pod_of_a_killed_run_is_removed(node: CrictlHost) -> None:
    node.pods = ["left"]
    node.tried()
    assert node.pods == []
    assert node.verbs()[:4] == ["inspecti", "pods", "rmp", "runp"]


def test_device_that_cri_o_does_not_know_is_a_problem(node: CrictlHost) -> None:
    node.created = Completed(1, "", UNRESOLVABLE)
    expected = "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all"
    assert node.tried() == Answer(problem=expected)
    assert node.pods == []


def test_program_that_fails_in_it_is_a_problem(node: CrictlHost) -> None:
    node.status["exitCode"] = 127
    node.started = lambda: node.log("/host/lib64/ld-linux-x86-64.so.2: no such file")
    assert node.tried().problem == "/host/lib64/ld-linux-x86-64.so.2: no such file"
    node.started = lambda: None
    assert node.tried().problem == "it ended with status 127"


def test_pod_that_a_kubelet_ends_is_tried_again_and_then_unknown(node: CrictlHost) -> None:
    node.started = node.pods.clear
    found = node.tried()
    assert (found.problem, found.unknown) == (
        "",
        "its pod was ended, as a kubelet ends pods that it does not know",
    )
    assert node.verbs().count("runp") == 3
    # Its container first, then the pod.
    node.started, node.status = (lambda: None), {**node.status, "exitCode": 137, "reason": "Error"}
    assert node.tried().unknown == found.unknown
    node.status["reason"] = "OOMKilled"
    assert node.tried().problem == "it ended with status 137"


def test_answer_counts_though_the_pod_was_ended_after_it(node: CrictlHost) -> None:
    def answer() -> None:
        node.log(SAID)
        node.pods.clear()

    node.started = answer
    assert node.tried().uuids == ("GPU-1",)
    assert node.verbs().count("runp") == 1


def test_pod_that_is_ended_between_two_calls_is_tried_again(node: CrictlHost) -> None:
    """CRI-O answers that it does not know the pod, which says nothing of its devices."""
    gone = Completed(1, "", 'level=fatal msg="rpc error: code = NotFound desc = pod not found"\n')

    def create(words: tuple[str, ...]) -> Completed:
        if "create" in words and node.verbs().count("create") == 1:
            node.pods.clear()
            return gone
        return node._crictl(words)

    node.commands["crictl",] = create
    assert node.tried().uuids == ("GPU-1",)


@pytest.mark.parametrize("images", [[], ["registry.example/pause:1"]])
def test_nothing_is_tried_without_the_image(node: CrictlHost, images: list[str]) -> None:
    node.images = images
    expected = f"{IMAGE}, with which CRI-O begins pods, is not on the node"
    assert node.tried() == Answer(unknown=expected)
    assert node.verbs() == ["inspecti"]
    node.commands["crio", "status"] = Completed(1, "", "connection refused")
    assert "with which CRI-O begins pods" in node.tried().unknown


def test_nothing_is_tried_without_crictl(node: CrictlHost) -> None:
    del node.commands["crictl",]
    assert node.tried() == Answer(unknown="the program crictl is not on the node")


def test_cri_o_is_asked_where_it_listens() -> None:
    main = '[crio.api]\nlisten = "/run/site/crio.sock"\n'
    host = RuntimeHost({"/etc/crio/crio.conf": main}, crio="1.36.3")
    assert Crio(host).socket() == "/run/site/crio.sock"  # type: ignore[arg-type]
    host.files["/etc/crio/crio.conf.d/50-site.conf"] = main.replace("site/", "other/")
    crio = Crio(host)  # type: ignore[arg-type]
    assert crio.socket() == "/run/other/crio.sock"
    host.commands["crio", "status", "--socket=/run/other/crio.sock"] = (
        '[crio.runtime]\ndefault_runtime = "crun"\n'
    )
    assert crio.running("") == {"default_runtime": "crun"}
    host.files["/etc/crio/crio.conf"] = "[crio"
    assert crio.socket() == "/run/crio/crio.sock"


def test_image_is_the_programs_own_where_none_is_set(node: CrictlHost) -> None:
    node.commands["crio", "status"] = "[crio.image]\n"
    node.commands["crio", "config", "--default"] = STATUS
    assert node.tried().uuids == ("GPU-1",)


def test_lines_of_a_log_are_joined_by_their_tags() -> None:
    log = "t stdout P a\nt stdout F b\nt stderr F c d\n\nt stdout F\n"
    assert pods.printed(log) == "ab\nc d\n\n\n"


def test_error_without_a_description_is_the_last_line() -> None:
    assert pods.cause("a\nlevel=fatal msg=none\n") == "level=fatal msg=none"
    assert pods.cause("") == ""

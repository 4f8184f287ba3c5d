# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The container images: built without an index, and started as the manifests start them."""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_cluster.webhook.certificates import issue
from gpunode_tool import containers, inside
from gpunode_tool.podman import label, podman

from tests.fakes.cluster.hami_pods import limits, pod
from tests.support.paths import REPOSITORY
from tests.support.waiting import LIMIT, eventually

pytestmark = pytest.mark.node

WEBHOOK = REPOSITORY / "files/kubernetes/dra"
SECURED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
NAME, PORT, PATH = "webhook", 9443, "mutate"
STORE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
[storage.options]
additionalimagestores = ["{machine}"]
"""
# Nobody answers there, and no review here asks: for a dry run no template is made.
KUBECONFIG = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    }
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let podman keep what it makes in a folder, and see this machine's images without being able to change them."""
    containers.base()
    machine = podman("info", "--format", "{{.Store.GraphRoot}}")
    (tmp_path / "storage.conf").write_text(STORE.format(folder=tmp_path, machine=machine))
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(tmp_path / "storage.conf"))
    yield
    overlay = tmp_path / "graph/overlay"
    subprocess.run(["umount", "--recursive", overlay], check=False, capture_output=True)
    shutil.rmtree(tmp_path / "graph", ignore_errors=True)


def images() -> set[str]:
    """Return the images of the store, those without a name too."""
    found = podman(
        "images", "--all", "--format", "{{.ReadOnly}} {{.Repository}}:{{.Tag}}"
    ).splitlines()
    return {one.removeprefix("false ") for one in found if one.startswith("false ")}


def test_the_image_has_the_daemon_and_neither_its_tools_nor_other_images_beside_it(
    store: None,
) -> None:
    name = containers.plugin([Path(os.environ["WHEELHOUSE"])])
    assert images() == {name}  # the two stages before the last one went with the build

    def run(*words: str, entry: str = "/opt/gpu-node/bin/gpu-plugin") -> str:
        named = ("--rm", "--network", "none", "--entrypoint", entry, name)
        return podman("run", "--label", label(), *SECURED, *named, *words)

    assert run("--version").startswith("gpu-plugin ")
    assert "--metrics-address" in run("run", "--help")
    python = "/opt/gpu-node/bin/python"
    loads = "import gpu_plugin.daemon, gpu_plugin.report.pages, importlib.util as u"
    for other in ("pip", "gpu_cluster"):
        assert run("-c", f"{loads}; print(u.find_spec('{other}'))", entry=python) == "None"


# --- the webhook's ---


@pytest.fixture
def webhook(bundle: Path, tmp_path: Path) -> Iterator[tuple[int, ssl.SSLContext]]:
    """Run the image as the manifest runs it, with a certificate of ours; where it serves, and whom to trust."""
    name = containers.plugin([bundle / "wheels", bundle / "webhook-wheels"], "webhook")
    (deployment,) = deployments()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    now = tmp_path.stat().st_mtime
    made = issue.authority("ca", now)
    pair = issue.serving(made, ("127.0.0.1",), now)
    for file, text in (
        ("tls.crt", pair.certificate),
        ("tls.key", pair.key),
        ("config", KUBECONFIG),
    ):
        (tmp_path / file).write_text(text)
        (tmp_path / file).chmod(0o644)  # the container's user is nobody's here
    tmp_path.chmod(0o755)
    given = {
        "GPU_WEBHOOK_TLS_CERT_FILE": "/given/tls.crt",
        "GPU_WEBHOOK_TLS_PRIVATE_KEY_FILE": "/given/tls.key",
        "GPU_WEBHOOK_LISTEN": f"0.0.0.0:{PORT}",
        "GPU_WEBHOOK_METRICS_ADDRESS": "off",
        "GPU_WEBHOOK_PATH": PATH,
        "KUBECONFIG": "/given/config",
    }
    variables = [f"--env={key}={value}" for key, value in given.items()]
    own = inside.container(NAME)
    words = (
        "run",
        "--detach",
        "--name",
        own,
        "--label",
        label(),
        "--publish",
        f"127.0.0.1::{PORT}",
    )
    words += (f"--volume={tmp_path}:/given:ro", *SECURED, *variables)
    try:
        podman(*words, name, *container["args"])
        port = int(podman("port", own, str(PORT)).rpartition(":")[2])
        yield port, ssl.create_default_context(cadata=made.certificate)
    finally:
        podman("rm", "--force", "--time", "0", own, check=False)


def deployments() -> list[dict[str, Any]]:
    found = yaml.safe_load_all((WEBHOOK / "webhook.yaml").read_text())
    objects = [one for each in found for one in each.get("items", [each])]
    return [one for one in objects if one["kind"] == "Deployment"]


def review(port: int, context: ssl.SSLContext, what: dict[str, Any]) -> dict[str, Any]:
    """Have a pod reviewed as an API server does, and return the answer."""
    request = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "default",
        "dryRun": True,
        "object": what,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=LIMIT, context=context)
    connection.request("POST", f"/{PATH}", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.long
def test_the_webhooks_image_answers_reviews_over_https(
    webhook: tuple[int, ssl.SSLContext],
) -> None:
    def answers() -> bool:
        try:
            review(*webhook, pod(limits()))
        except OSError:
            return False
        return True

    eventually(answers)
    plain = review(*webhook, pod(limits()))
    assert plain["kind"] == "AdmissionReview"
    assert plain["response"] == {"uid": "u-1", "allowed": True}
    wrong = review(*webhook, pod(limits(gpu=1, gpumem="much")))
    assert wrong["response"]["allowed"] is False
    assert "nvidia.com/gpumem" in wrong["response"]["status"]["message"]
    share = review(*webhook, pod(limits(gpu=1, gpumem=3000)))
    assert share["response"]["allowed"] is True
    patch = json.loads(base64.b64decode(share["response"]["patch"]))
    assert "/spec/resourceClaims" in {one["path"] for one in patch}
    assert podman("exec", inside.container(NAME), "id", "-u") == "65532"
    for program in ("gpu-plugin", "gpu-cluster"):
        own = f"/opt/gpu-node/bin/{program}"
        assert podman("exec", inside.container(NAME), own, "--version").startswith(program)

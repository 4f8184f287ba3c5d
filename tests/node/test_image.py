# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The container images: built without an index, and started as the manifests start them."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_plugin.webhook.certificates import issue
from gpunode_tool import containers
from gpunode_tool.podman import podman

from tests.fakes.cluster.hami_pods import limits, pod
from tests.support.paths import REPOSITORY
from tests.support.waiting import eventually

pytestmark = pytest.mark.node

WEBHOOK = REPOSITORY / "files/kubernetes/dra"
SECURED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
NAME = "gpunode-webhook-test"
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
def image(builder: None) -> str:
    """Build the device plugin's image from the wheelhouse alone."""
    return containers.plugin([Path(os.environ["WHEELHOUSE"])])


def test_the_image_has_the_daemon_and_not_its_tools(image: str) -> None:
    def run(*words: str, entry: str = "/opt/gpu-node/bin/gpu-plugin") -> str:
        return podman(
            "run", "--rm", "--network", "none", *SECURED, "--entrypoint", entry, image, *words
        )

    assert run("--version").startswith("gpu-plugin ")
    assert "--metrics-address" in run("run", "--help")
    python = "/opt/gpu-node/bin/python"
    run("-c", "import gpu_plugin.daemon, gpu_plugin.report.pages", entry=python)
    assert (
        run("-c", "import importlib.util as u; print(u.find_spec('pip'))", entry=python) == "None"
    )


def test_what_is_built_leaves_no_other_image(image: str) -> None:
    """The two stages before the last one went with the build."""
    podman("rmi", image)
    before = images()
    assert containers.plugin([Path(os.environ["WHEELHOUSE"])]) == image
    (new,) = images() - before
    assert new.endswith(f" {image}")


def images() -> set[str]:
    """Return the plugin's images and those without a name; tests beside this one make others."""
    found = podman("images", "--all", "--format", "{{.Id}} {{.Repository}}:{{.Tag}}").splitlines()
    return {one for one in found if "/gpunode-plugin:" in one or "<none>" in one}


# --- the webhook's ---


@pytest.fixture
def webhook(bundle: Path, builder: None, tmp_path: Path) -> Iterator[tuple[int, ssl.SSLContext]]:
    """Run the image as the manifest runs it, with a certificate of ours; where it serves, and whom to trust."""
    name = containers.plugin([bundle / "wheels", bundle / "webhook-wheels"], "webhook")
    (deployment,) = deployments()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    made = issue.authority("ca", time.time())
    pair = issue.serving(made, ("127.0.0.1",), time.time())
    for file, text in (
        ("tls.crt", pair.certificate),
        ("tls.key", pair.key),
        ("config", KUBECONFIG),
    ):
        (tmp_path / file).write_text(text)
        (tmp_path / file).chmod(0o644)  # the container's user is nobody's here
    tmp_path.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = {
        "GPU_WEBHOOK_TLS_CERT_FILE": "/given/tls.crt",
        "GPU_WEBHOOK_TLS_PRIVATE_KEY_FILE": "/given/tls.key",
        "GPU_WEBHOOK_LISTEN": f"127.0.0.1:{port}",
        "GPU_WEBHOOK_METRICS_ADDRESS": "off",
        "KUBECONFIG": "/given/config",
    }
    variables = [f"--env={key}={value}" for key, value in given.items()]
    words = ("run", "--detach", "--name", NAME, "--network=host", f"--volume={tmp_path}:/given:ro")
    podman(*words, *SECURED, *variables, name, *container["args"])
    yield port, ssl.create_default_context(cadata=made.certificate)
    podman("rm", "--force", NAME, check=False)


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
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    connection.request("POST", "/mutate", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    found: dict[str, Any] = json.loads(text)
    return found


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
    assert podman("exec", NAME, "id", "-u") == "65532"

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The manifests of DRA and its webhook, in an API server: what it takes, and whom it lets do what."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.filter.hami_config import hami_config
from ansible_collections.gpu.node.plugins.module_utils._base.dra import names
from ansible_collections.gpu.node.plugins.module_utils._cluster import trial
from gpu_cluster.hami.mutation import mutate
from gpu_cluster.hami.published import Published
from gpu_cluster.hami.settings import Settings
from gpu_cluster.hami.template import name_in
from gpu_plugin._shared._cluster.machine.api import ApiError
from gpu_plugin.cluster.access import Access
from gpu_plugin.dra.slice_api import SliceApi

from tests.fakes.cluster.hami_pods import BOTH_NODES, MIG_NODES, MPS_NODES, OTHER_NODES, limits
from tests.fakes.cluster.hami_pods import pod as hami_pod
from tests.fakes.kubernetes.administered import KINDS, Administered
from tests.support.paths import REPOSITORY
from tests.support.waiting import eventually

Json = dict[str, Any]
FOLDER = REPOSITORY / "files/kubernetes/dra"
NODE, OTHER = "worker-1", "worker-2"
STRICT = "fieldValidation=Strict&dryRun=All"
SLICES = KINDS["ResourceSlice"]


def objects(path: Path, *kinds: str) -> list[Json]:
    """Return the objects of a manifest, of these kinds or of all."""
    manifest = yaml.safe_load(path.read_text().replace("NODE", NODE))
    items = manifest["items"] if manifest["kind"] == "List" else [manifest]
    return [item for item in items if not kinds or item["kind"] in kinds]


def path_of(one: Json) -> str:
    space = one["metadata"].get("namespace", "default")
    return KINDS[one["kind"]].format(space)


def attempt(what: Callable[[], Any]) -> Any:
    """Return the answer, or the refusal."""
    try:
        return what()
    except ApiError as error:
        return error


def until_refused(what: Callable[[int], Any]) -> str:
    """Ask until it is refused, since a server comes to know of a policy or a webhook a moment later."""
    times = itertools.count()

    def said() -> str:
        answer = attempt(lambda: what(next(times)))
        return str(answer) if isinstance(answer, ApiError) else ""

    return eventually(said)


def known(what: Callable[[], Any]) -> Any:
    """Return the answer. The Node authorizer knows of a slice a moment after it was made, and refuses until then."""
    answers: list[Any] = []

    def refused() -> bool:
        answers[:] = [attempt(what)]
        return isinstance(answers[0], ApiError) and answers[0].status == 403

    eventually(refused, False)
    assert not isinstance(answers[0], ApiError), str(answers[0])
    return answers[0]


@pytest.fixture(scope="module")
def cluster(
    api_server: type[Administered], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Administered]:
    with api_server(tmp_path_factory.mktemp("api")) as made:
        for name in (NODE, OTHER):
            made.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        made.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-node"}})
        for space in ("default", "kube-system"):
            meta = {"name": "default", "namespace": space}
            made.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
        for one in (*objects(FOLDER / "node-policy.yaml"), *objects(FOLDER / "node-rbac.yaml")):
            made.create(one)
        yield made


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.yaml")), ids=lambda path: path.stem)
def test_the_server_takes_each_manifest(cluster: Administered, path: Path) -> None:
    for one in objects(path):
        if one["apiVersion"].startswith("cert-manager.io/"):
            continue  # not Kubernetes' own
        asked = f"{path_of(one)}?{STRICT}"
        made = attempt(lambda asked=asked, one=one: cluster.admin.ask("trying", "POST", asked, one))
        if isinstance(made, ApiError) and made.status == 409:
            continue  # the fixture has made it
        assert not isinstance(made, ApiError), (one["kind"], str(made))
        assert made["metadata"]["name"] == one["metadata"]["name"]


def publish(by: Access, node: str, pool: str = "", driver: str = "gpu.node") -> Json:
    place = {"driver": driver, "nodeName": node, "devices": [{"name": "gpu-0"}]}
    name = pool or names.pool_name(node)
    pools = {"name": name, "generation": 1, "resourceSliceCount": 1}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"generateName": "slice-"},
        "spec": {**place, "pool": pools},
    }
    made: Json = by.ask("publishing a slice", "POST", SLICES, body)
    return made


def remove(by: Access, one: Json) -> None:
    by.ask("removing a slice", "DELETE", f"{SLICES}/{one['metadata']['name']}", None)


@pytest.fixture(scope="module")
def in_force(cluster: Administered) -> None:
    """Wait until the policy is in force."""
    said = until_refused(lambda _at: remove(cluster.admin, publish(cluster.admin, NODE)))
    assert "binding 'gpu-node-dra' denied request: a Resource" in said


@pytest.fixture(params=["kubelet", "account"])
def nodes_own(request: pytest.FixtureRequest, cluster: Administered) -> Access:
    if request.param == "kubelet":
        return cluster.access(f"system:node:{NODE}", "system:nodes")
    return cluster.account(f"gpu-node-dra-{NODE}", "gpu-node")


def refused(what: Callable[[], Any]) -> str:
    with pytest.raises(ApiError) as error:
        what()
    assert error.value.status in (403, 422)
    return str(error.value)


@pytest.mark.attack("slices-of-other-nodes")
@pytest.mark.usefixtures("in_force")
def test_a_node_writes_slices_of_its_own_and_of_no_other(
    cluster: Administered, nodes_own: Access
) -> None:
    made = publish(nodes_own, NODE)
    meta, spec = made["metadata"], made["spec"]
    spec["pool"]["generation"] += 1
    path = f"{SLICES}/{meta['name']}"
    known(lambda: nodes_own.ask("changing a slice", "PUT", path, made))
    refused(lambda: publish(nodes_own, OTHER))
    assert "gpu-node-dra' denied" in refused(lambda: publish(nodes_own, NODE, "elsewhere"))
    remove(nodes_own, publish(nodes_own, NODE, pool=NODE))  # as an earlier release names it
    others = publish(cluster.access(f"system:node:{OTHER}", "system:nodes"), OTHER)
    refused(lambda: remove(nodes_own, others))
    remove(nodes_own, made)
    remove(cluster.admin, others)  # as of a node that is gone


@pytest.mark.usefixtures("in_force")
def test_a_node_may_do_all_that_the_driver_asks_for(nodes_own: Access) -> None:
    slices = SliceApi(nodes_own, NODE)
    found, version = slices.all()
    assert found == []
    spec = {"driver": "gpu.node", "nodeName": NODE, "devices": [{"name": "gpu-0"}]}
    spec["pool"] = {"name": names.pool_name(NODE), "generation": 1, "resourceSliceCount": 1}
    made = slices.create("slice-of-worker-1", spec, slices.owner())
    event = next(slices.follow(version, 10))
    assert (event.kind, event.content["metadata"]["name"]) == ("ADDED", "slice-of-worker-1")
    spec["pool"] = {**spec["pool"], "generation": 2}  # type: ignore[dict-item]
    slices.delete(known(lambda: slices.replace(made, spec)))
    assert slices.all()[0] == []


@pytest.mark.attack("slices-of-other-nodes")
@pytest.mark.usefixtures("in_force")
def test_nobody_else_writes_slices_of_our_driver(cluster: Administered) -> None:
    assert "gpu-node-dra' denied" in refused(lambda: publish(cluster.admin, NODE))
    remove(cluster.admin, publish(cluster.admin, NODE, driver="gpu.example.com"))


NETWORK = "dra.net"


@pytest.mark.attack("slices-of-other-nodes")
@pytest.mark.usefixtures("in_force")
@pytest.mark.parametrize("at", [NODE, OTHER])
def test_no_account_of_a_node_touches_another_drivers_slices(
    cluster: Administered, at: str
) -> None:
    mine = cluster.account(f"gpu-node-dra-{NODE}", "gpu-node")
    assert "gpu-node-dra' denied" in refused(lambda: publish(mine, at, driver=NETWORK))
    theirs = publish(cluster.access(f"system:node:{at}", "system:nodes"), at, driver=NETWORK)
    path = f"{SLICES}/{theirs['metadata']['name']}"
    changed = {**theirs, "spec": {**theirs["spec"], "devices": []}}
    taken = {**theirs, "spec": {**theirs["spec"], "driver": "gpu.node", "nodeName": NODE}}
    for body in (changed, taken):
        refused(lambda body=body: mine.ask("changing a slice", "PUT", path, body))
    assert "gpu-node-dra' denied" in refused(lambda: remove(mine, theirs))
    assert cluster.get("ResourceSlice", theirs["metadata"]["name"])["spec"] == theirs["spec"]
    remove(cluster.admin, theirs)


@pytest.mark.attack("slices-of-other-nodes")
@pytest.mark.usefixtures("in_force")
def test_the_account_of_a_node_may_do_no_more(cluster: Administered) -> None:
    mine = cluster.account(f"gpu-node-dra-{NODE}", "gpu-node")
    others = f"/api/v1/nodes/{OTHER}"
    listed = KINDS["ResourceClaim"].format("default")
    for path in ("/api/v1/pods", "/api/v1/secrets", others, KINDS["DeviceClass"], listed):
        assert "403" in refused(lambda path=path: mine.ask("looking", "GET", path))


CONFIGURATION = f"{KINDS['MutatingWebhookConfiguration']}/gpu-node-webhook"
CLIENT = "/webhooks/0/clientConfig"
SECRETS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["secrets"]}
ELSEWHERE = {"service": {"namespace": "team", "name": "mine", "port": 443}}


def configure_webhook(cluster: Administered) -> Iterator[Json]:
    """Configure the webhook, which answers nowhere here, so that no other test's pods wait for it."""
    (webhook,) = objects(FOLDER / "webhook.yaml", "MutatingWebhookConfiguration")
    cluster.create(webhook)
    try:
        yield webhook
    finally:
        cluster.admin.ask("removing the webhook", "DELETE", CONFIGURATION, None)


configuration = pytest.fixture(configure_webhook)


@pytest.fixture(scope="module")
def webhooks_own(cluster: Administered) -> Access:
    """The webhook's account, once the policy that keeps it is in force."""
    needed = (
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    )
    for manifest in objects(FOLDER / "webhook.yaml", *needed):
        cluster.create(manifest)
    own = cluster.account("gpu-node-webhook", "gpu-node")
    with contextlib.contextmanager(configure_webhook)(cluster):
        until_refused(lambda at: changed(own, "replace", "/webhooks/0/timeoutSeconds", at % 9 + 1))
    return own


def changed(by: Access, how: str, path: str, value: Any = None) -> Json:
    step = {"op": how, "path": path, **({} if value is None else {"value": value})}
    kind = "application/json-patch+json"
    found: Json = by.ask("changing it", "PATCH", CONFIGURATION, [step], kind=kind)  # type: ignore[arg-type]
    return found


@pytest.mark.attack("webhook-rewrites-its-configuration")
@pytest.mark.usefixtures("configuration")
@pytest.mark.parametrize(
    ("how", "path", "value"),
    [
        ("replace", "/webhooks/0/rules/0/resources", ["*"]),
        ("add", "/webhooks/0/rules/-", SECRETS),
        ("replace", "/webhooks/0/namespaceSelector", {}),
        ("replace", "/webhooks/0/objectSelector", {}),
        ("remove", "/webhooks/0/matchConditions", None),
        ("replace", "/webhooks/0/failurePolicy", "Ignore"),
        ("replace", "/webhooks/0/reinvocationPolicy", "Never"),
        ("replace", "/webhooks/0/matchPolicy", "Exact"),
        ("replace", "/webhooks/0/sideEffects", "None"),
        ("replace", CLIENT, ELSEWHERE),
        ("replace", CLIENT, {"url": "https://example.com/"}),
        ("remove", "/webhooks/0", None),
        ("add", "/metadata/annotations/cert-manager.io~1inject-ca-from", "team/mine"),
        ("add", "/metadata/labels/a", "b"),
    ],
)  # fmt: skip
def test_the_webhook_changes_nothing_of_its_configuration_but_bundle_and_path(
    cluster: Administered, webhooks_own: Access, how: str, path: str, value: Any
) -> None:
    changed(webhooks_own, "add", f"{CLIENT}/caBundle", "eA==")
    changed(webhooks_own, "add", f"{CLIENT}/service/path", "/x")
    before = cluster.admin.ask("looking", "GET", CONFIGURATION)
    assert "Policy 'gpu-node-webhook'" in refused(lambda: changed(webhooks_own, how, path, value))
    assert cluster.admin.ask("looking", "GET", CONFIGURATION) == before


def pod(name: str, space: str = "default", labels: Any = None, **limits: int) -> Json:
    return pod_of(
        name, {f"nvidia.com/{key}": count for key, count in limits.items()}, space, labels
    )


def pod_of(name: str, limits: Json, space: str = "default", labels: Any = None) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": space, "labels": labels or {}},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}]},
    }


def wishing(key: str, one: Json) -> Json:
    """Return a pod with an annotation."""
    return {**one, "metadata": {**one["metadata"], "annotations": {key: "x"}}}


def test_only_pods_with_these_resources_wait_for_the_webhook(
    cluster: Administered, configuration: Json
) -> None:
    """No webhook answers here, and so failurePolicy and the conditions show."""
    cluster.create(*objects(FOLDER / "webhook.yaml", "Service"))
    said = until_refused(lambda at: cluster.create(pod(f"early-{at}", gpumem=1)))
    assert "hami.webhook.gpu.node" in said
    scheduled = {"schedulerName": "hami-scheduler"}
    for one in (
        pod("cores", gpucores=1),
        pod("low", priority=1),
        wishing("nvidia.com/use-gputype", pod("chosen", gpu=1)),
        wishing("hami.io/gpu-scheduler-policy", pod("policy", gpu=1)),
        {**pod("init"), "spec": {**pod("init")["spec"], **init("gpumem")}},
        {**pod("cpu"), "spec": {**pod("cpu")["spec"], **scheduled}},
    ):
        with pytest.raises(ApiError, match=r"hami\.webhook\.gpu\.node"):
            cluster.create(one)
    cluster.create(pod("plain"))
    cluster.create(wishing("nvidia.com/use-gputype", pod("annotated")))
    cluster.create(wishing("example.com/x", pod("whole", gpu=1)))
    cluster.create(pod("own", space="kube-system", gpu=1, gpumem=1))
    cluster.create(pod("left-out", labels={"hami.io/webhook": "ignore"}, gpu=1, gpumem=1))
    renamed = {"kind": "List", "apiVersion": "v1", "items": [configuration]}
    text = "nvidia: {resourceCountName: a.io/n, resourceMemoryName: a.io/mem}"
    (other,) = hami_config([renamed], text)["objects"]
    version = cluster.get("MutatingWebhookConfiguration", "gpu-node-webhook")["metadata"]
    other["metadata"]["resourceVersion"] = version["resourceVersion"]
    cluster.admin.ask("renaming", "PUT", CONFIGURATION, other)
    until_refused(lambda at: cluster.create(pod_of(f"renamed-{at}", {"a.io/n": 1})))
    with pytest.raises(ApiError, match=r"hami\.webhook\.gpu\.node"):
        cluster.create(pod_of("renamed", {"a.io/mem": 1}))
    cluster.create(pod("none-of-theirs", gpu=1, gpumem=1))


BOUND = {"nvidia.com/numa-bind": "true"}
EITHER = Published((*MPS_NODES.devices, *OTHER_NODES.devices, *MIG_NODES.devices))
ON_NODES = Published(tuple(replace(one, numa=n % 2) for n, one in enumerate(EITHER.devices)))


@pytest.mark.parametrize(
    ("one", "published"),
    [
        (hami_pod(limits(gpu=1, gpumem=8000, gpucores=30)), BOTH_NODES),
        (hami_pod(limits(gpu=2, gpumem=8000)), BOTH_NODES),
        (hami_pod(limits(gpu=2, gpumem=8000, gpucores=30), annotations=BOUND), ON_NODES),
        (hami_pod(limits(gpu=2, gpumem=8000), annotations=BOUND), EITHER),
    ],
)
def test_the_server_takes_templates_of_shares_and_mig_devices(
    cluster: Administered, one: Json, published: Published
) -> None:
    (template,) = mutate(one, Settings(), published).templates
    (asked,) = template.spec["spec"]["devices"]["requests"]
    assert {way["deviceClassName"] for way in asked["firstAvailable"]} >= {names.MIG_CLASS}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    path = f"{KINDS['ResourceClaimTemplate'].format('default')}?{STRICT}"
    wish = {**body, "metadata": {"name": template.name}, "spec": template.spec}
    made = cluster.admin.ask("trying a template", "POST", path, wish)
    assert name_in(made["spec"]) == template.name


@pytest.mark.parametrize("name", [names.GPU_CLASS, names.MIG_CLASS, names.SHARE_CLASS])
def test_the_server_takes_the_claims_that_validation_makes(
    cluster: Administered, name: str
) -> None:
    claim = trial.claim(name, "default", NODE)
    asked = f"{KINDS['ResourceClaim'].format('default')}?{STRICT}"
    made = cluster.admin.ask("trying a claim", "POST", asked, claim)
    trying = trial.manifest(NODE, name, "default", "pause", ["true"], 60)
    wish = trial.with_claim(trying, made["metadata"]["name"])
    asked = f"{KINDS['Pod'].format('default')}?{STRICT}"
    pod = cluster.admin.ask("trying a pod", "POST", asked, wish)
    assert pod["spec"]["resourceClaims"] == wish["spec"]["resourceClaims"]


def init(resource: str) -> Json:
    return {"initContainers": pod("x", **{resource: 1})["spec"]["containers"]}

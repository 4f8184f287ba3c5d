# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""HAMi's scenarios by name (MutateAdmission, GenerateResourceRequests, Fit, the webhook), as claims have them."""

from __future__ import annotations

from gpu_cluster.hami.mutation import mutate
from gpu_cluster.hami.published import Published
from gpu_cluster.hami.settings import Names, Settings
from gpu_plugin.model.quantity import MIB
from gpu_plugin.model.quantity import size as written

from tests.fakes.cluster.hami_pods import (
    MPS_NODES,
    OTHER_NODES,
    SETTINGS,
    Json,
    asked,
    changed,
    exactly,
    expressions,
    limits,
    pod,
    refusal,
)

GPU, SHARE = "gpu.gpu.node", "share.gpu.node"
PRIVILEGED = {"privileged": True}


def parameters(one: Json, settings: Settings = SETTINGS) -> Json:
    (template,) = mutate(one, settings, MPS_NODES).templates
    (config,) = template.spec["spec"]["devices"]["config"]
    return dict(config["opaque"]["parameters"])


AMOUNTS: tuple[tuple[Json, str, Json | None], ...] = (
    # exclusive at 100 cores, or all of the memory without cores
    ({"gpucores": 100}, GPU, None),
    ({"gpumem_percentage": 100}, GPU, None),
    ({"gpumem": 3000, "gpucores": 100}, GPU, None),
    # a share: what is not asked for is 0 cores and all of the memory
    ({"gpumem": 3000}, SHARE, {"memory": "3000Mi"}),
    ({"gpucores": 30}, SHARE, {"cores": "30"}),
    ({"gpucores": 0}, SHARE, None),
    ({"gpumem_percentage": 100, "gpucores": 30}, SHARE, {"cores": "30"}),
    ({"gpumem": 0, "gpucores": 30}, SHARE, {"cores": "30"}),
    ({"gpumem_percentage": 0, "gpucores": 30}, SHARE, {"cores": "30"}),
    ({"gpumem": "10k", "gpucores": "1e1"}, SHARE, {"memory": "10000Mi", "cores": "10"}),
    # more than 100 cores are 100, and gpumem goes before gpumem-percentage
    ({"gpumem": 3000, "gpucores": 150}, GPU, None),
    ({"gpumem": 3000, "gpumem_percentage": 50}, SHARE, {"memory": "3000Mi"}),
)


def test_what_amounts_come_to() -> None:
    for amounts, device, capacity in AMOUNTS:
        way = exactly(pod(limits(gpu=1, **amounts)))
        found = way["deviceClassName"], way.get("capacity", {}).get("requests")
        assert found == (device, capacity), amounts


REFUSED: tuple[tuple[Json, str], ...] = (
    ({"gpumem_percentage": 101}, "limits[nvidia.com/gpumem-percentage]: 101 can't be"),
    ({"gpumem": -1}, "limits[nvidia.com/gpumem]: -1 can't be"),
    ({"gpumem": "10Gi"}, "limits[nvidia.com/gpumem]: 10737418240 can't be"),
    ({"gpumem": "1Gi"}, "limits[nvidia.com/gpumem]: 1073741824 can't be: it is a number of MiB"),
    ({"gpumem": "16Mi"}, "limits[nvidia.com/gpumem]: 16777216 can't be: it is a number of MiB"),
    ({"gpumem": "0.5"}, "limits[nvidia.com/gpumem]: '0.5' can't be"),
    ({"gpumem": "much"}, "limits[nvidia.com/gpumem]: 'much' can't be"),
    ({"gpumem": 1, "priority": 2}, "limits[nvidia.com/priority]: 2 can't be"),
    ({"gpumem": 1, "gpu": 33}, "limits[nvidia.com/gpu]: 33 can't be"),
)


def test_amounts_that_cant_be() -> None:
    for amounts, field in REFUSED:
        told = refusal(pod(limits(**{"gpu": 1, **amounts})))
        assert told.startswith(f"spec.containers[0].resources.{field}")


def test_bytes_are_not_taken_for_mib() -> None:
    told = refusal(pod(limits(gpu=1, gpumem="1Gi")))
    assert told.endswith("no GPU has 16 TiB. Next step: write 1024, if bytes are meant")
    assert exactly(pod(limits(gpu=1, gpumem=(16 << 20) - 1)))["deviceClassName"] == SHARE
    told = refusal(pod(limits(gpu=1, gpumem=20 << 10)), settings=Settings(memory_factor=1024))
    assert "no GPU has 16 TiB" in told


def test_more_whole_gpus_than_a_claim_has_need_no_claim() -> None:
    """Devices of a node that shares by time are that many."""
    assert mutate(pod(limits(gpu=33)), SETTINGS, MPS_NODES).patch == []
    choosy = {"nvidia.com/use-gputype": "A100"}
    told = refusal(pod(limits(gpu=33), annotations=choosy))
    assert "limits[nvidia.com/gpu]: 33 can't be: a claim has at most 32 devices" in told


def test_limits_and_requests_differ() -> None:
    resources = {"limits": limits(gpu=1, gpumem=3000), "requests": limits(gpu=1, gpumem=2000)}
    told = refusal(pod({"name": "one", "resources": resources}))
    assert told.startswith(
        "spec.containers[0].resources.requests[nvidia.com/gpumem]: 2000 can't be"
    )


def test_requests_without_limits_are_taken() -> None:
    one = pod({"name": "one", "resources": {"requests": limits(gpu=1, gpumem=3000)}})
    after, _found = changed(one)
    zeros = dict.fromkeys(limits(gpu=1, gpumem=3000), "0")
    assert after["spec"]["containers"][0]["resources"]["requests"] == zeros
    assert exactly(one)["capacity"] == {"requests": {"memory": "3000Mi"}}


def test_no_count_is_the_default_count() -> None:
    one = pod(limits(gpumem=3000))
    assert exactly(one)["count"] == 1
    assert exactly(one, OTHER_NODES, Settings(default_count=2))["count"] == 2
    told = refusal(one, settings=Settings(default_count=0))
    assert "nvidia.com/gpu is not there, and defaultGPUNum is 0" in told


def test_a_count_of_zero_is_no_gpu() -> None:
    found = mutate(pod(limits(gpu=0, gpumem=3000)), SETTINGS, MPS_NODES)
    assert found.templates == ()
    assert [step["path"].rpartition("/")[2] for step in found.patch] == ["nvidia.com~1gpumem"]
    assert mutate(pod(limits(gpu=0)), SETTINGS, MPS_NODES).patch == []


def test_default_memory_and_cores_are_of_the_settings() -> None:
    settings = Settings(default_memory=5000, default_cores=20)
    assert exactly(pod(limits(gpu=1, gpucores=30)), settings=settings)["capacity"] == {
        "requests": {"memory": "5000Mi", "cores": "30"}
    }
    given = exactly(pod(limits(gpu=1, gpumem=3000)), settings=settings)
    assert given["capacity"] == {"requests": {"memory": "3000Mi", "cores": "20"}}
    given = exactly(pod(limits(gpu=1, gpumem=3000, gpucores=0)), settings=settings)
    assert given["capacity"] == {"requests": {"memory": "3000Mi"}}
    assert (
        exactly(pod(limits(gpu=1, gpumem=3000)), settings=Settings(default_cores=100))[
            "deviceClassName"
        ]
        == GPU
    )


def test_a_count_alone_is_a_whole_gpu_whatever_the_defaults() -> None:
    """As of HAMi 2.10: a default must not put it beside others."""
    for settings in (Settings(default_memory=5000), Settings(default_cores=20)):
        assert mutate(pod(limits(gpu=1)), settings, MPS_NODES).patch == []
        chosen = pod(limits(gpu=1), annotations={"nvidia.com/use-gputype": "A100"})
        way = exactly(chosen, settings=settings)
        assert (way["deviceClassName"], len(way["selectors"])) == (GPU, 1)
        assert mutate(chosen, settings, MPS_NODES).warnings == ()


def test_memory_is_multiplied_by_its_factor() -> None:
    way = exactly(pod(limits(gpu=1, gpumem=3)), settings=Settings(memory_factor=1024))
    assert way["capacity"] == {"requests": {"memory": "3Gi"}}


def test_names_are_configuration() -> None:
    names = Names("a.io/n", "a.io/mem", "a.io/pct", "a.io/cores", "a.io/prio")
    settings = Settings(names)
    assert mutate(pod(limits(gpu=1, gpumem=3000)), settings, MPS_NODES).patch == []
    one = pod({"a.io/n": 1, "a.io/mem": 3000, "a.io/cores": 30, "a.io/prio": 0})
    assert exactly(one, settings=settings)["capacity"]["requests"] == {
        "memory": "3000Mi",
        "cores": "30",
    }
    assert parameters(one, settings)["priority"] == 0


def test_a_renamed_count_alone_is_a_claim() -> None:
    """No node has a resource of that name any more."""
    settings = Settings(Names(count="a.io/n"))
    way = exactly(pod({"a.io/n": 2}), settings=settings)
    assert (way["deviceClassName"], way["count"]) == (GPU, 2)


def test_priority_is_of_the_resource_or_the_environment() -> None:
    assert parameters(pod(limits(gpu=1, gpumem=1, priority=0)))["priority"] == 0
    assert parameters(pod(limits(gpu=1, gpumem=1, priority=1)))["priority"] == 1
    assert (
        parameters(pod(limits(gpu=1, gpumem=1)))["priority"] == 1
    )  # HAMi's default is the low one
    env = [{"name": "CUDA_TASK_PRIORITY", "value": "0"}]
    own = {"name": "one", "env": env, "resources": {"limits": limits(gpu=1, gpumem=1)}}
    assert parameters(pod(own))["priority"] == 0


def test_priority_on_whole_gpus_is_taken_away_and_told() -> None:
    after, found = changed(pod(limits(gpu=1, priority=1)))
    zeros = dict.fromkeys(limits(gpu=1, priority=1), "0")
    assert after["spec"]["containers"][0]["resources"]["limits"] == zeros
    assert found.warnings == (
        "spec.containers[0].resources.limits[nvidia.com/priority] has no effect on whole GPUs",
    )


def test_the_core_limit_can_be_turned_off() -> None:
    one = pod(limits(gpu=1, gpumem=1, gpucores=30))
    assert parameters(one)["coreLimit"] is True
    assert parameters(one, Settings(core_limit=False))["coreLimit"] is False
    env = [{"name": "GPU_CORE_UTILIZATION_POLICY", "value": "disable"}]
    own = {"name": "one", "env": env, "resources": {"limits": limits(gpu=1, gpumem=1)}}
    assert parameters(pod(own))["coreLimit"] is False


def test_percentage_needs_published_shares() -> None:
    one = pod(limits(gpu=1, gpumem_percentage=50))
    told = refusal(one, Published())
    assert told.startswith(
        "spec.containers[0].resources.limits[nvidia.com/gpumem-percentage]: 50 can't be: "
        "no node publishes shares"
    )


def test_percentage_of_cards_of_several_sizes() -> None:
    from gpu_cluster.hami.published import Device

    sizes = (*range(1024, 11 * 1024, 1024), 2048)
    nodes = Published(tuple(Device("share", size, "x", str(size), "mps") for size in sizes))
    ways = asked(pod(limits(gpu=1, gpumem_percentage=50)), nodes)["firstAvailable"]
    assert len(ways) == 8
    assert "of-2048" in [way["name"] for way in ways]  # the one that most have
    for way in ways:
        size = int(way["name"].removeprefix("of-"))
        assert way["capacity"] == {"requests": {"memory": written(size // 2 * MIB)}}
        assert f'quantity("{size}Mi")' in expressions(way)[0]


def test_percentage_looks_at_the_cards_that_suit_only() -> None:
    from gpu_cluster.hami.published import Device

    nodes = Published(
        (
            Device("share", 1000, "NVIDIA T4", "a", "mps"),
            Device("share", 2000, "NVIDIA A100", "b", "mps"),
        )
    )
    one = pod(limits(gpu=1, gpumem_percentage=50), annotations={"nvidia.com/use-gputype": "a100"})
    assert exactly(one, nodes)["capacity"] == {"requests": {"memory": "1000Mi"}}


def test_each_container_has_a_claim_of_its_own() -> None:
    one = pod(limits(gpu=1, gpumem=1000), {"cpu": "1"}, limits(gpu=1, gpumem=1000))
    after, found = changed(one)
    assert len(found.templates) == 1
    claims = after["spec"]["resourceClaims"]
    assert [claim["name"] for claim in claims] == ["gpu-main-0", "gpu-main-2"]
    assert after["spec"]["containers"][1] == one["spec"]["containers"][1]


def test_an_init_container_shares_the_claim_of_what_wants_the_same() -> None:
    """Init containers have ended before others start: what wants the same shares the claim."""
    share, more = limits(gpu=1, gpumem=1000), limits(gpu=1, gpumem=2000)
    after, _found = changed(pod(share, init=(share, more, more)))
    spec = after["spec"]
    held = [one["resources"]["claims"][0]["name"] for one in spec["initContainers"]]
    assert held == ["gpu-main-0", "gpu-init-1", "gpu-init-1"]
    assert [one["name"] for one in spec["resourceClaims"]] == ["gpu-main-0", "gpu-init-1"]


def test_claims_that_exclude_most_come_first() -> None:
    """Kubernetes tries claims in their order, and a share that it tried may keep a GPU from the next one."""
    share, two = limits(gpu=1, gpumem=1000), limits(gpu=2, gpumem=1000)
    whole, wholes = limits(gpu=1, gpucores=100), limits(gpu=2, gpucores=100)
    given = [{"name": "own", "resourceClaimName": "x"}]
    one = pod(share, whole, two, wholes, init=(limits(gpu=3, gpucores=100),), resourceClaims=given)
    after, _found = changed(one, OTHER_NODES)
    names = [claim["name"] for claim in after["spec"]["resourceClaims"]]
    assert names == ["own", "gpu-init-0", "gpu-main-3", "gpu-main-1", "gpu-main-2", "gpu-main-0"]
    held = [each["resources"]["claims"] for each in after["spec"]["containers"]]
    assert held == [[{"name": f"gpu-main-{number}"}] for number in range(4)]


def test_a_sidecar_has_a_claim_of_its_own() -> None:
    share = limits(gpu=1, gpumem=1000)
    sidecar = {"name": "side", "restartPolicy": "Always", "resources": {"limits": share}}
    init = {"name": "early", "resources": {"limits": share}}
    after, _found = changed(pod(share, init=(sidecar, init)))
    held = [one["resources"]["claims"][0]["name"] for one in after["spec"]["initContainers"]]
    assert held == ["gpu-side", "gpu-main-0"]
    alone, _found = changed(pod({"cpu": "1"}, init=(sidecar, init)))
    held = [one["resources"]["claims"][0]["name"] for one in alone["spec"]["initContainers"]]
    assert held == ["gpu-side", "gpu-early"]


def test_names_that_are_taken() -> None:
    long = "c" * 63
    share = limits(gpu=1, gpumem=1000)
    one = pod(
        share,
        {"name": long, "resources": {"limits": share, "claims": [{"name": "other"}]}},
        resourceClaims=[
            {"name": "gpu-main-0", "resourceClaimName": "x"},
            {"name": "other", "resourceClaimName": "y"},
        ],
    )
    after, _found = changed(one)
    names = [claim["name"] for claim in after["spec"]["resourceClaims"]]
    assert names[:2] == ["gpu-main-0", "other"]
    assert len(set(names)) == 4
    assert all(len(name) < 64 for name in names)
    assert after["spec"]["containers"][1]["resources"]["claims"] == [
        {"name": "other"},
        {"name": names[3]},
    ]


def test_words_that_no_product_has() -> None:
    for word in ('a"b', "a\\b", "a\nb", "\u00fc", "a" * 65, "a[0]", "a'", "${x}"):
        for key in ("use-gputype", "nouse-gputype", "use-gpuuuid", "nouse-gpuuuid"):
            told = refusal(pod(limits(gpu=1), annotations={f"nvidia.com/{key}": f"A100,{word}"}))
            assert told.startswith(f"metadata.annotations[nvidia.com/{key}]: ")
    many = ",".join(map(str, range(33)))
    told = refusal(pod(limits(gpu=1), annotations={"nvidia.com/use-gputype": many}))
    assert "it has more than 32 words" in told


def test_numa_bind_becomes_a_constraint() -> None:
    annotations = {"nvidia.com/numa-bind": "true"}
    (template,) = mutate(pod(limits(gpu=2), annotations=annotations), SETTINGS, MPS_NODES).templates
    assert template.spec["spec"]["devices"]["constraints"] == [
        {"requests": ["gpu"], "matchAttribute": "gpu.node/numaNode"}
    ]
    assert mutate(pod(limits(gpu=1), annotations=annotations), SETTINGS, MPS_NODES).patch == []
    told = refusal(pod(limits(gpu=2), annotations={"nvidia.com/numa-bind": "yes"}))
    assert told.startswith("metadata.annotations[nvidia.com/numa-bind]: 'yes' can't be")


def test_policies_that_are_not_done_are_warned_of() -> None:
    warned = {"binpack": False, "spread": True, "topology-aware": True, "numa": True}
    for policy, expected in warned.items():
        one = pod(limits(gpu=1, gpumem=1), annotations={"hami.io/gpu-scheduler-policy": policy})
        told = mutate(one, SETTINGS, MPS_NODES).warnings
        assert bool(told) == expected
        assert all("is not done" in text for text in told)


def test_mutex_is_for_whole_gpus() -> None:
    mutex = {"hami.io/gpu-scheduler-policy": "mutex"}
    told = refusal(pod(limits(gpu=1, gpumem=1), annotations=mutex))
    assert told.startswith("metadata.annotations[hami.io/gpu-scheduler-policy]: 'mutex' can't be")
    assert mutate(pod(limits(gpu=1), annotations=mutex), SETTINGS, MPS_NODES).patch == []


def test_the_scheduler_of_hami_becomes_the_default_one() -> None:
    for amounts in ({"gpu": 1}, {"gpu": 1, "gpumem": 1}):
        after, _found = changed(pod(limits(**amounts), schedulerName="hami-scheduler"))
        assert after["spec"]["schedulerName"] == "default-scheduler"
    other = mutate(pod(limits(gpu=1, gpumem=1), schedulerName="volcano"), SETTINGS, MPS_NODES)
    assert (other.patch, other.templates) == ([], ())
    assert other.warnings == ("spec.schedulerName: pods of volcano are left as they are",)


def test_what_asks_for_no_gpu_leaves_the_scheduler_of_hami_too() -> None:
    """It would wait for it for ever."""
    after, found = changed(pod({"cpu": "1"}, schedulerName="hami-scheduler"))
    assert after["spec"]["schedulerName"] == "default-scheduler"
    assert (len(found.patch), found.warnings) == (1, ())
    assert mutate(pod({"cpu": "1"}, schedulerName="volcano"), SETTINGS, MPS_NODES).patch == []


def test_a_volume_of_ones_own_at_dev_shm_is_told_under_mps() -> None:
    mount = {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm/"}]}
    share = {"name": "vllm", **mount, "resources": {"limits": limits(gpu=1, gpumem=1000)}}
    (told,) = mutate(pod(share), SETTINGS, MPS_NODES).warnings
    assert told == (
        "spec.containers[0].volumeMounts: under mps /dev/shm is the one of all shares of the GPU,"
        " in the place of the volume shm"
    )
    assert mutate(pod(share), SETTINGS, OTHER_NODES).warnings == ()
    whole = {**share, "resources": {"limits": limits(gpu=1, gpucores=100)}}
    assert mutate(pod(whole), SETTINGS, MPS_NODES).warnings == ()


def test_a_privileged_container_with_a_share_is_refused() -> None:
    share = {"name": "one", "resources": {"limits": limits(gpu=1, gpumem=1)}}
    other = {"name": "two", "securityContext": PRIVILEGED}
    for one in (pod({**share, "securityContext": PRIVILEGED}), pod(share, other)):
        assert "securityContext.privileged: True can't be" in refusal(one)
    whole = {"name": "one", "resources": {"limits": limits(gpu=1, gpucores=100)}}
    assert exactly(pod({**whole, "securityContext": PRIVILEGED}))["deviceClassName"] == GPU


def test_a_node_by_name() -> None:
    told = refusal(pod(limits(gpu=1, gpumem=1), nodeName="node-1"))
    assert told.startswith("spec.nodeName: 'node-1' can't be")
    assert mutate(pod(limits(gpu=1), nodeName="node-1"), SETTINGS, MPS_NODES).patch == []

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Golden checks of nodes: from what a node and its device plugin show to each check with its cause and next step.

`python -m tests.pure.library.golden.test_validate_golden` writes the checks anew.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.dra.allocation import Owners
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._checks.validate import dra
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.cdi import (
    SpecificationState,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.check import Check
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.containers import Answer
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.gpus import Layout, SetAside
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.node import (
    ValidateOptions,
    evaluate_checks,
    summarize,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.services import Holds, Unit
from ansible_collections.gpu.node.plugins.module_utils._node.gpu_record import Gpus
from ansible_collections.gpu.node.plugins.module_utils._node.in_service import Change
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import (
    Quarantine,
    Quarantined,
)

from tests.fakes.library.golden.plans import plain, read_plans, write_plans
from tests.fakes.library.nodes_to_validate import CDI, MIGS, PLAIN, driver, node, resource
from tests.support.paths import FAKES

KEPT = FAKES / "library/golden/validate.json"
ASIDE = Quarantine({PLAIN.uuid: Quarantined("operator", "XID 79", "INC-1", pci=PLAIN.pci_bus_id)})
OWNERS = Owners("both", frozenset(["0"]))
SERVES = dra.DraReport("serving", registered=True, gpus=frozenset([PLAIN.uuid]))
SICK = dra.DraReport(
    "failed", "no socket", unpublished="no route", unenforced={PLAIN.uuid: "no MPS"}
)
MPS = {
    PLAIN.uuid: {"problem": "it starts", "waits_for_clients": False},
    MIGS[0]: {"problem": "clients have 30 s", "waits_for_clients": True},
}
GONE = {"gpus": (), "mig_uuids": (), "containers": {}}
# What the device plugin says, the changes of the node, and what is asked for.
Scene = tuple[dict[str, Any], dict[str, Any], ValidateOptions]
SCENES: dict[str, Scene] = {
    "as it should be": ({}, {}, ValidateOptions()),
    "driver is silent": (
        {},
        {**GONE, **driver(problem="it is not loaded", loaded="")},
        ValidateOptions(),
    ),
    "driver is slow": ({}, {**GONE, **driver(problem="it is slow", slow=True)}, ValidateOptions()),
    "GPU is lost": ({}, {"gpus": (PLAIN,), "lost_gpus": ("GPU 1 fell off",)}, ValidateOptions()),
    "GPUs are fewer than asked for": ({}, {}, ValidateOptions(gpu_count=4)),
    "GPU was recorded": ({}, {"recorded": Gpus(("a", "b", "c"), ("a", "b"))}, ValidateOptions()),
    "GPU is set aside": (
        {},
        {"aside": SetAside(ASIDE, (NodeError("it is elsewhere"),))},
        ValidateOptions(),
    ),
    "GPU that is set aside is gone": (
        {},
        {
            "gpus": (),
            "aside": SetAside(ASIDE),
            "recorded": Gpus((PLAIN.pci_bus_id, "b"), (PLAIN.pci_bus_id, "b")),
        },
        ValidateOptions(gpu_count=1, aside_may_be_missing=True),
    ),
    "quarantine is damaged": (
        {},
        {"aside": SetAside(problem=NodeError("bad", hint="mend it"))},
        ValidateOptions(),
    ),
    "layout differs": ({}, {"layout": Layout("half", ("GPU 1: none",))}, ValidateOptions()),
    "layout is not known": (
        {},
        {"layout": Layout("half", problem="no such profile")},
        ValidateOptions(),
    ),
    "no layout": ({"mig_boot": {}}, {"layout": None}, ValidateOptions()),
    "layout failed at boot": (
        {"mig_boot": {"state": "failed", "problems": ["x"]}},
        {},
        ValidateOptions(),
    ),
    "MIG devices differ": ({"mig_uuids": [MIGS[0]]}, {}, ValidateOptions()),
    "plugin is not there": ({"state": "not_running"}, {}, ValidateOptions()),
    "plugin has a problem": ({"state": "waiting", "problem": "no driver"}, {}, ValidateOptions()),
    "nothing reaches containers": (
        {},
        {"unreached": NodeError("no", cause="c", hint="h")},
        ValidateOptions(),
    ),
    "not registered": (resource(registered=False), {"kubelet": False}, ValidateOptions()),
    "not registered where it must": (
        resource(registered=False),
        {"kubelet": False},
        ValidateOptions(kubelet=True),
    ),
    "not registered by a kubelet": (resource(registered=False), {}, ValidateOptions()),
    "registration is refused": ({"registration_problem": "too long"}, {}, ValidateOptions()),
    "kubelet allocates less": ({"allocatable": {"nvidia.com/gpu": 0}}, {}, ValidateOptions()),
    "kubelet does not say": ({"kubelet_problem": "no socket"}, {}, ValidateOptions()),
    "unhealthy device": (
        resource(devices={PLAIN.uuid: "Unhealthy"}, problems={PLAIN.uuid: "XID 79"}),
        {},
        ValidateOptions(),
    ),
    "waiting device": (
        {
            **resource(devices={PLAIN.uuid: "Unhealthy"}, problems={PLAIN.uuid: "held"}),
            "devices": [{"uuid": PLAIN.uuid, "index": "0", "reason": "held"}],
        },
        {},
        ValidateOptions(),
    ),
    "device of a quarantine": (
        {
            **resource(devices={PLAIN.uuid: "Unhealthy"}, problems={PLAIN.uuid: "aside"}),
            "devices": [{"uuid": PLAIN.uuid, "index": "0"}],
            "gpu_uuids": [PLAIN.uuid],
            "gpu_indices": ["0"],
            "quarantine": {"gpus": {PLAIN.uuid: {}}},
        },
        {},
        ValidateOptions(),
    ),
    "MPS is not ready": ({"mps": MPS}, {}, ValidateOptions()),
    "client of MPS fails": ({}, {"client": Answer(problem="no pipe")}, ValidateOptions()),
    "client of MPS adds wrongly": ({}, {"client": Answer(cuda="wrong sum")}, ValidateOptions()),
    "client of MPS adds": ({}, {"client": Answer(cuda=""), "containers": {}}, ValidateOptions()),
    "no CDI": ({"cdi": None}, {}, ValidateOptions()),
    "CDI failed": (
        {"cdi": {**CDI, "failed": True, "devices": ["0"], "missing": ["/usr/lib/x"]}},
        {"cdi": SpecificationState(("GPU-0 is new",))},
        ValidateOptions(),
    ),
    "CDI is not known": ({}, {"cdi": SpecificationState(unknown="no driver")}, ValidateOptions()),
    "CDI is lost": (
        {},
        {"cdi": SpecificationState(lost="/dev/nvidia0 is gone", next_step="make it")},
        ValidateOptions(),
    ),
    "container sees one GPU": (
        {},
        {
            "runtimes": {"containerd": Check("containerd: CDI"), "docker": Check("docker: CDI")},
            "containers": {
                "containerd": Answer((PLAIN.uuid,)),
                "docker": Answer(unknown="no socket"),
            },
            "beside": Answer(cuda="wrong sum"),
        },
        ValidateOptions(),
    ),
    "container does not open": (
        {},
        {"containers": {"podman": Answer(problem="x")}},
        ValidateOptions(),
    ),
    "CUDA was not tried": (
        {},
        {"containers": {}, "cuda_unknown": "every device is in use"},
        ValidateOptions(),
    ),
    "unit has failed": (
        {},
        {"units": (Unit("gpu-cdi.service", "enabled", "failed"),)},
        ValidateOptions(),
    ),
    "hold is gone": ({}, {"holds": Holds(frozenset({"a"}), frozenset())}, ValidateOptions()),
    "in a change": ({}, {"change": Change("mig", "ctl-1", "root")}, ValidateOptions()),
    "within a change": (
        {},
        {"change": Change("mig", "ctl-1", "root")},
        ValidateOptions(change="mig"),
    ),
    "parts are not there": ({"state": "not_running"}, {"parts": frozenset()}, ValidateOptions()),
    "parts are asked for": (
        {"state": "not_running", "labels": None},
        {"parts": frozenset()},
        ValidateOptions(components=frozenset({"labels", "device_plugin"})),
    ),
    "labels fail": (
        {"labels": {"state": "failed", "problem": "forbidden", "labels": {}}},
        {},
        ValidateOptions(kubelet=True),
    ),
    "driver of another version": (
        {},
        driver(loaded="550.1"),
        ValidateOptions(driver_version="570"),
    ),
    "DRA serves": ({}, {"dra": dra.DraFacts(OWNERS, SERVES)}, ValidateOptions(allocation="both")),
    "DRA is sick": ({}, {"dra": dra.DraFacts(OWNERS, SICK)}, ValidateOptions(allocation="dra")),
}


def checks_of_scene(name: str) -> list[Any]:
    """Return the summary of a node and its checks; of those as they should be the number alone, but for one node."""
    good, *others = (SCENES[each] for each in ("as it should be", name))
    usual = [] if name == "as it should be" else evaluate_checks(node(good[0], **good[1]), good[2])
    (said, changes, wanted) = others[0]
    state = node(said, **changes)
    found = evaluate_checks(state, wanted)
    rows = [list(filter(None, check)) for check in found if check not in usual]
    return [summarize(state, found), len(found) - len(rows), *rows]


@pytest.mark.parametrize("name", SCENES)
def test_node_gets_its_golden_checks(name: str) -> None:
    assert plain(checks_of_scene(name)) == read_plans(KEPT)[name]


if __name__ == "__main__":
    write_plans(KEPT, {name: checks_of_scene(name) for name in SCENES}, 2)

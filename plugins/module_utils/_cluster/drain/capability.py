# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.drain."""

from __future__ import annotations

import time
import typing as t

from ..._base.errors import InputError, NodeError
from ..._base.steps import Plan, Step
from ..._base.text.masking import masked_text
from ..._base.text.shown import cut, printable
from .. import pods as podding
from ..machine.api import CONFLICT, FORBIDDEN, MISSING, ApiError
from ..machine.asking import (
    Pauses,
    check_rights,
    interrupted,
    missing_rights,
    patiently,
    understood,
    unreached,
)
from ..machine.client import KubernetesApi, describe_operator
from ..pods import Pod
from ..rights import OF_CLAIMS, OF_DAEMONSETS, OF_DRAIN, Right, of_cordon
from . import node as nodes
from .machine import Evictions, refusal
from .node import DrainNode
from .triage import ALL, Rules, Triage, triage

CORDONED, DRAINED, UNCORDONED, EVICTED = ("cordoned", "drained", "uncordoned", "evicted")
HELD, ADMITTED = "held", "admitted"
DRAINS, TAINTS = (DRAINED, EVICTED), (HELD, ADMITTED)
LONGEST = 1000  # characters of an annotation


class DrainState(t.NamedTuple):
    """The node, and the triage of its pods."""

    node: DrainNode
    pods: Triage


class DrainCapability:
    """Keeps a node of a cluster cordoned, drained or tainted, or gives it back."""

    name = "drain"

    def __init__(
        self,
        params: t.Mapping[str, t.Any],
        connect: t.Callable[[str, str], KubernetesApi] = KubernetesApi,
        *,
        check_mode: bool = False,
    ) -> None:
        _check(params)
        self._is_patient = params["patient"] and not check_mode
        self._params, self._node = params, params["node"]
        self._api = connect(params["kubeconfig"], params["context"])
        self._note = f"{_timestamp()} {describe_operator()}: {_text(params['reason'])}"
        self._failure = _text(params["failure"]) if params["state"] == CORDONED else ""
        self._quarantine: bool = params["quarantine"]
        drained = params["state"] == DRAINED
        stays = "the node stays cordoned" if drained else "no other pod is touched"
        self._evictions = Evictions(self._api, self._triage, params["grace_period"], stays)
        self._seconds = params["timeout"] * (1 + params["retries"])
        self._daemonsets: t.Dict[t.Tuple[str, podding.Owner], str] = {}
        self._begun = self._changed = False

    # --- observe ---

    def observe(self) -> DrainState:
        """Read the node and its pods.

        Raises:
            NodeError: if the API server is away or refuses.
        """
        waits = self._begun or self._is_patient
        deadline = time.monotonic() + (self._seconds if waits else 0)
        try:
            if not self._begun:
                patiently(lambda: check_rights(self._api, self._rights()), deadline)
            return patiently(self._look, deadline)
        except ApiError as error:
            explained = interrupted if self._begun else unreached
            raise explained(self._api, error) from error

    def _rights(self) -> t.Tuple[Right, ...]:
        drains = self._params["state"] in DRAINS
        return of_cordon(self._node) + (OF_DRAIN if drains else ())

    def _look(self) -> DrainState:
        node = self._read_node()
        if self._params["state"] not in DRAINS:
            return DrainState(node, Triage())
        return DrainState(node, self._triage(self._params["wait_for_jobs"] > 0))

    def _read_node(self) -> DrainNode:
        try:
            return understood(nodes.read, self._api.node(self._node))
        except ApiError as error:
            if error.status != MISSING:
                raise
            if self._params["state"] in TAINTS:
                return DrainNode(self._node, "", joined=False)
            raise self._unknown() from error

    def _unknown(self) -> NodeError:
        names = self._names()
        expected = (
            "the name of one of its nodes" if names is None else f"one of its {len(names)} nodes"
        )
        near = nodes.near(self._node, names or [])
        error = InputError.of("node", self._node, f"{expected} of {self._api.server}")
        error.hint = f"near it are {', '.join(near)}" if near else "see kubectl get nodes"
        return error

    def _names(self) -> t.Optional[t.List[str]]:
        """Return the names of the cluster's nodes, None without the right to list them, which is not asked for."""
        try:
            return self._api.nodes()
        except ApiError:
            return None

    def _triage(self, finish: bool) -> Triage:
        params = self._params
        choices = (params["pods"], params["bare_pods"], params["emptydir"])
        rules = Rules(self._node, *choices, finish, frozenset(params["names"]))
        pods = []
        for answer in self._api.pods(self._node):
            pod = understood(podding.read, answer)
            drivers = {claim: self._drivers(pod, claim) for claim in pod.claims}
            pods.append(self._with_daemonset(podding.with_claims(pod, drivers)))
        return triage(pods, rules)

    def _drivers(self, pod: Pod, claim: str) -> t.Tuple[str, ...]:
        """Return the drivers that a claim has devices of."""
        try:
            return understood(podding.drivers, self._api.resource_claim(pod.namespace, claim))
        except ApiError as error:
            if error.status == FORBIDDEN:
                raise missing_rights(self._api, OF_CLAIMS, f"{pod} has resource claims") from error
            if error.status == MISSING:
                return ()
            raise

    def _with_daemonset(self, pod: Pod) -> Pod:
        """Return a pod without its DaemonSet if that is not there; each DaemonSet is read once."""
        matters = pod.node == self._node and (pod.gpus or self._params["pods"] == ALL)
        if pod.controller != podding.DAEMONSET or pod.finished or not matters:
            return pod
        key = (pod.namespace, pod.owner)
        if key not in self._daemonsets:
            self._daemonsets[key] = self._daemonset(pod)
        return podding.with_daemonset(pod, self._daemonsets[key])

    def _daemonset(self, pod: Pod) -> str:
        """Return the UID of the DaemonSet that a pod names, empty if there is none."""
        group = podding.daemonsets(pod)
        if not group:
            return ""
        version, name, _uid = pod.owner
        try:
            answer = self._api.daemonset(version, pod.namespace, name)
            return understood(lambda daemonset: str(daemonset["metadata"]["uid"]), answer)
        except ApiError as error:
            if error.status == FORBIDDEN and group == OF_DAEMONSETS[0].group:
                cause = f"{pod} names a DaemonSet"
                raise missing_rights(self._api, OF_DAEMONSETS, cause) from error
            if error.status in (FORBIDDEN, MISSING):
                return ""
            raise

    # --- plan ---

    def plan(self, state: DrainState) -> Plan:
        """Return the steps.

        Raises:
            NodeError: if pods would be lost.
        """
        if state.pods.refused:
            raise refusal(
                state.pods, evicted=self._evictions.evicted, waited=self._evictions.waited
            )
        steps = self._change_of_node(state.node)
        if state.pods.to_go:
            names, seconds = ", ".join(map(str, state.pods.to_go)), self._params["wait_for_jobs"]
            first = f"once jobs had {seconds} s to finish, " if state.pods.finishing else ""
            steps.append(Step("drain", f"{first}evict {names} from node {self._node}"))
        if self._params["state"] in TAINTS:
            before, after = self._taints(state.node)
            return Plan(tuple(steps), before, after, warnings=tuple(self._warnings(state)))
        before = _shown(state.node, state.pods)
        after = _shown(state.node, Triage())
        if self._params["state"] != EVICTED:
            after.update(self._after(state.node))
        return Plan(tuple(steps), before, after, warnings=tuple(self._warnings(state)))

    def _after(self, node: DrainNode) -> t.Dict[str, t.Any]:
        """Return the fields of a node after the plan."""
        if self._wants_cordon:
            quarantined = _text(self._params["reason"]) if self._quarantine else ""
            return {
                "unschedulable": True,
                "failed": self._failure or _reason(node.failed, " "),
                "quarantined": quarantined or _reason(node.quarantined, ": "),
            }
        stays = bool(node.stays(quarantine=self._quarantine))
        return {
            "unschedulable": node.unschedulable and stays,
            "failed": _reason(node.failed, " ") if self._quarantine else "",
            "quarantined": "" if self._quarantine else _reason(node.quarantined, ": "),
        }

    def _taints(self, node: DrainNode) -> t.Tuple[t.Dict[str, t.Any], t.Dict[str, t.Any]]:
        """Return the taints of a node before and after the plan."""
        patch = self._patch(node)
        planned = patch["spec"]["taints"] if patch else node.taints
        before, after = (
            {"taints": [nodes.describe_taint(taint) for taint in taints]}
            for taints in (node.taints, planned)
        )
        return before, after

    @property
    def _wants_cordon(self) -> bool:
        return self._params["state"] in (CORDONED, DRAINED)

    def _patch(self, node: DrainNode) -> t.Dict[str, t.Any]:
        quarantine = self._quarantine
        if self._wants_cordon:
            note, failure = self._note, self._failure
            return nodes.cordon(node, note, failure, _timestamp(), quarantine=quarantine)
        if self._params["state"] in TAINTS:
            return nodes.hold(node) if self._params["state"] == HELD else nodes.admit(node)
        if self._params["state"] == EVICTED:
            return {}
        return nodes.uncordon(node, quarantine=quarantine)

    def _change_of_node(self, node: DrainNode) -> t.List[Step]:
        patch = self._patch(node)
        if not patch:
            return []
        if self._params["state"] in TAINTS:
            taint = f"{nodes.NOT_ACCEPTED}:{nodes.NO_SCHEDULE}"
            if self._params["state"] == HELD:
                return [Step("taint", f"taint node {node.name} with {taint}")]
            return [Step("untaint", f"remove the taint {taint} of node {node.name}")]
        if "spec" in patch:
            verb = "cordon" if self._wants_cordon else "uncordon"
            return [Step(verb, f"{verb} node {node.name}")]
        change = "remove our annotations"
        if self._wants_cordon:
            change = f"keep the {'failure' if self._failure else 'reason'} in an annotation"
        return [Step("annotate", f"{change} of node {node.name}")]

    def _warnings(self, state: DrainState) -> t.Iterator[str]:
        node = state.node
        yield from self._api.warnings
        if not node.joined:
            near = nodes.near(self._node, self._names() or [])
            hint = f"; near its name are {', '.join(near)}" if near else ""
            if near or self._params["state"] == HELD:
                yield f"node {node.name} is not in the cluster {self._api.server} yet and has no taint{hint}"
        uncordons = self._params["state"] == UNCORDONED
        stays = node.stays(quarantine=self._quarantine) if uncordons else ""
        if stays and node.unschedulable:
            yield f"node {node.name} stays cordoned, since {stays}"
        if state.pods.holders and self._params["state"] != EVICTED:
            otherwise = "by its runtime class, its environment or its program"
            gpus = ((pod, ", ".join(pod.gpus) or otherwise) for pod in state.pods.holders)
            named = ", ".join(f"{pod} ({access})" for pod, access in gpus)
            yield (
                f"pods that a drain leaves on node {node.name} have GPUs or may have some open: {named}."
                " What reloads the driver or changes MIG may have to have them end first"
            )

    # --- apply ---

    def apply(self, step: Step) -> None:
        """Carry out one step."""
        self._begun = True
        try:
            if step.action == "drain":
                if self._params["wait_for_jobs"] > 0:
                    self._evictions.let_finish(self._params["wait_for_jobs"])
                self._evictions.run(time.monotonic() + self._seconds)
            else:
                self._change_node()
        except NodeError as error:
            if isinstance(error, ApiError):
                error = self._explained(error)
            error.details.setdefault("changed", self._has_changed)
            raise error

    def _change_node(self) -> None:
        """Change the node as it is now, and again if it is changed by another client at the same time."""
        pauses = Pauses(time.monotonic() + self._seconds)
        while True:
            try:
                patch = self._patch(self._read_node())
                if patch:
                    self._api.patch_node(self._node, patch)
                    self._changed = True
                return
            except ApiError as error:
                if pauses.over or not (error.passing or error.status == CONFLICT):
                    raise
            pauses.wait()

    def _explained(self, error: ApiError) -> NodeError:
        if error.status == FORBIDDEN:
            missing = [right for right in self._rights() if not self._api.allowed(right)]
            if missing:
                return missing_rights(self._api, missing, error.cause)
        return interrupted(self._api, error)

    @property
    def _has_changed(self) -> bool:
        return self._changed or bool(self._evictions.evicted)

    # --- report ---

    def result(self, state: DrainState, plan: Plan) -> t.Dict[str, t.Any]:
        """Return the node, and what was done with the pods."""
        planned = not self._begun and plan.steps
        answer = {
            "node": state.node.name,
            "joined": state.node.joined,
            "held": state.node.held,
            "cordoned": state.node.unschedulable,
            "cordoned_by_us": state.node.ours,
            "evicted": [*map(str, state.pods.to_go)] if planned else self._evictions.evicted,
            "waited": self._evictions.waited,
            "left": [
                {"pod": str(pod), "reason": reason, "gpus": list(pod.gpus), "opens": pod.opens}
                for pod, reason in state.pods.left
            ],
            "blocked": [],
        }
        if self._begun:  # nothing was changed if all pods ended by themselves
            answer["changed"] = self._has_changed
        return answer


def _check(params: t.Mapping[str, t.Any]) -> None:
    for key, least in (("timeout", 1), ("retries", 0), ("wait_for_jobs", 0), ("grace_period", -1)):
        if params[key] < least:
            raise InputError.of(key, params[key], f"{least} or more")
    if not params["node"]:
        raise InputError.of("node", params["node"], "the name of a node of the cluster")
    evicts = params["state"] == EVICTED
    if bool(params["names"]) != evicts:
        expected = "pods or claims, as namespace/name" if evicts else "it only with state evicted"
        raise InputError.of("names", params["names"], expected)
    for name in params["names"]:
        if len(name.split("/")) != 2 or not all(name.split("/")):
            raise InputError.of("names", name, "a pod or a claim, as namespace/name")
    if params["failure"] and params["state"] != CORDONED:
        expected = f"nothing, since state is {params['state']}"
        raise InputError.of("failure", params["failure"], expected)
    if params["quarantine"] and params["state"] in (DRAINED, *TAINTS):
        expected = f"false with state {params['state']}, or state cordoned"
        raise InputError.of("quarantine", True, expected)


def _timestamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _text(value: str) -> str:
    return cut(printable(masked_text(" ".join(value.split()))), LONGEST)


def _reason(annotation: str, separator: str) -> str:
    """Return the reason in an annotation, without its time and author."""
    return annotation.partition(separator)[2]


def _shown(node: DrainNode, pods: Triage) -> t.Dict[str, t.Any]:
    return {
        "unschedulable": node.unschedulable,
        "failed": _reason(node.failed, " "),
        "quarantined": _reason(node.quarantined, ": "),
        "pods": [str(pod) for pod in pods.to_go],
    }

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.validate_pods: pods are made on a node, looked at and removed."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ..._base.errors import InputError, NodeError
from ..._base.steps import Plan, Step
from ..._cluster import trial
from ..._cluster.machine.api import MISSING, ApiError, if_there
from ..._cluster.machine.asking import (
    Pauses,
    check_rights,
    interrupted,
    patiently,
    understood,
    unreached,
)
from ..._cluster.machine.client import KubernetesApi
from ..._cluster.pods import Json
from ..._cluster.rights import of_trial
from ..._cluster.trust import unpinned
from ..validate.check import FAILED, Check, describe_checks, of_state, skipped

GONE = "it is gone before it was looked at"
TAKEN = "pods with claims have what there is of it"


class ValidatePodsState(t.NamedTuple):
    """The checks, and how many of each resource the node offers."""

    checks: t.Tuple[Check, ...]
    offered: trial.Counts


class ValidatePodsCapability:
    """Has a pod with each resource of a node scheduled and run."""

    name = "validate_pods"

    def __init__(
        self,
        params: t.Mapping[str, t.Any],
        *,
        check_mode: bool,
        connect: t.Callable[[str, str], KubernetesApi] = KubernetesApi,
    ) -> None:
        for key in ("image", "node"):
            if not params[key]:
                raise InputError.of(key, params[key], "a name")
        if params["timeout"] < 1:
            raise InputError.of("timeout", params["timeout"], "1 or more")
        self._params, self._check_mode = params, check_mode
        self._node, self._namespace = params["node"], params["namespace"]
        self._api = connect(params["kubeconfig"], params["context"])

    def observe(self) -> ValidatePodsState:
        """Run the pods and judge them; in check mode none is made.

        Raises:
            NodeError: if the API server does not allow it.
        """
        try:
            check_rights(self._api, of_trial(self._node, self._namespace))
            node = self._read_node()
            offered = understood(trial.offered, node)
            pods = self._api.pods(self._node)
            have, classes = trial.used(pods), self._classes(node)
        except ApiError as error:
            raise unreached(self._api, error) from error
        try:
            checks = (*self._checks(offered, have, classes), *self._claimed(classes, pods))
            return ValidatePodsState(checks, offered)
        except ApiError as error:
            raise interrupted(self._api, error) from error

    def _read_node(self) -> Json:
        try:
            return self._api.node(self._node)
        except ApiError as error:
            if error.status != MISSING:
                raise
            raise InputError.of("node", self._node, f"a node of {self._api.server}") from error

    def _classes(self, node: Json) -> t.Tuple[str, ...]:
        """Return the classes of what a node with DRA publishes; no other node is asked about it. ApiError."""
        if not understood(trial.has_dra, node):
            return ()
        check_rights(self._api, trial.claims_rights(self._namespace))
        query = {"fieldSelector": f"spec.nodeName={self._node}"}
        path = f"{trial.GROUP}/resourceslices"
        answer = self._api.ask("listing the node's slices", "GET", path, query=query)
        return understood(trial.classes, answer)

    def _claimed(self, classes: t.Sequence[str], pods: t.Sequence[Json]) -> t.Iterator[Check]:
        """Try one class after the other: a GPU's whole, its MIG devices and its shares exclude each other."""
        if not classes or self._check_mode:
            return
        taken = trial.has_claims(pods)
        query = {"labelSelector": f"{trial.LABEL}={trial.CREATOR}"}
        answer = self._api.ask(
            "listing claims", "GET", trial.claims_folder(self._namespace), query=query
        )
        for name, _uid in trial.left_over(answer.get("items") or [], self._node):
            self._remove_claim(name)  # of a run that was killed
        for name in classes:
            yield self._try_claim(name, taken=taken)

    def _try_claim(self, name: str, *, taken: bool) -> Check:
        """Make a claim and a pod with it, and remove both whatever comes."""
        wish = trial.claim(name, self._namespace, self._node)
        path = trial.claims_folder(self._namespace)
        made = self._api.ask("making a claim", "POST", path, wish)["metadata"]
        try:
            pod = trial.with_claim(self._manifest(name), made["name"])
            return self._tried(name, self._api.create_pod(self._namespace, pod), taken=taken)
        finally:
            with contextlib.suppress(ApiError):  # the next run removes it
                self._remove_claim(made["name"])

    def _tried(self, name: str, pod: Json, *, taken: bool) -> Check:
        try:
            (check,) = self._judged({name: pod})
            last = self._look(pod) if taken and not check.holds else None
            return skipped(check.name, TAKEN) if last and trial.unplaced(last) else check
        finally:
            with contextlib.suppress(ApiError):  # it ends by itself, and the next run removes it
                self._remove(pod["metadata"]["name"], pod["metadata"]["uid"])

    def _remove_claim(self, name: str) -> None:
        path = f"{trial.claims_folder(self._namespace)}/{name}"
        deadline = time.monotonic() + self._params["timeout"]
        doing = f"removing claim {name}"
        if_there(lambda: patiently(lambda: self._api.ask(doing, "DELETE", path), deadline))

    def _checks(
        self, offered: trial.Counts, have: trial.Counts, classes: t.Sequence[str]
    ) -> t.Iterator[Check]:
        if not offered and not classes:
            hint = "see the check of the kubelet's registration, and kubectl describe node"
            yield Check("pods", FAILED, "the node has no resource of NVIDIA's allocatable", hint)
        free = [name for name, count in offered.items() if have.get(name, 0) < count]
        for name in offered:
            if name not in free:
                yield skipped(_named(name), f"pods have all {offered[name]} of it")
        if self._check_mode:
            for name in (*free, *classes):
                yield skipped(_named(name), "no pod is made in check mode")
        else:
            yield from self._run(free)

    def _run(self, resources: t.Sequence[str]) -> t.List[Check]:
        """Make the pods, wait for them side by side, and remove them whatever comes."""
        made: t.Dict[str, Json] = {}
        pods_left = self._api.labelled_pods(self._namespace, trial.LABEL, trial.CREATOR)
        for name, uid in trial.left_over(pods_left, self._node):  # of a run that was killed
            self._remove(name, uid)
        try:
            for resource in resources:
                made[resource] = self._api.create_pod(self._namespace, self._manifest(resource))
            return self._judged(made)
        finally:
            for pod in made.values():  # each ends by itself, and the next run removes it
                with contextlib.suppress(ApiError):
                    self._remove(pod["metadata"]["name"], pod["metadata"]["uid"])

    def _manifest(self, resource: str) -> t.Dict[str, t.Any]:
        params = self._params
        place = (self._node, resource, self._namespace)
        return trial.manifest(*place, params["image"], params["command"], params["timeout"] * 2)

    def _remove(self, name: str, uid: str) -> None:
        deadline = time.monotonic() + self._params["timeout"]
        patiently(lambda: self._api.delete_pod(self._namespace, name, uid), deadline)

    def _judged(self, made: t.Mapping[str, Json]) -> t.List[Check]:
        pauses = Pauses(time.monotonic() + self._params["timeout"])
        to_the_end = bool(self._params["command"])
        checks: t.Dict[str, Check] = {}
        while True:
            for resource in [
                resource_left for resource_left in made if resource_left not in checks
            ]:
                pod = self._look(made[resource])
                if pod is None:
                    checks[resource] = self._failed(resource, GONE)
                elif trial.proven(pod, to_the_end=to_the_end):
                    checks[resource] = Check(_named(resource))
                elif trial.failed(pod) or pauses.over:
                    checks[resource] = self._failed(resource, trial.why(pod))
            if len(checks) == len(made):
                return [checks[resource] for resource in made]
            pauses.wait()

    def _look(self, pod: Json) -> t.Optional[Json]:
        deadline = time.monotonic() + self._params["timeout"]
        name = pod["metadata"]["name"]
        return if_there(lambda: patiently(lambda: self._api.pod(self._namespace, name), deadline))

    def _failed(self, resource: str, cause: str) -> Check:
        hint = f"see kubectl -n {self._namespace} get events, and the log of the kubelet"
        return Check(_named(resource), FAILED, cause, hint)

    def plan(self, state: ValidatePodsState) -> Plan:
        """There is never anything to do; what does not hold is an error, unless that was not wanted."""
        failed = of_state(state.checks, FAILED)
        if self._params["fail"] and failed:
            raise NodeError("; ".join(map(str, failed)), **_describe(state))
        warning = unpinned(self._params["image"], "gpu_nodes_pod_image")
        return Plan(warnings=(*self._api.warnings, *filter(None, [warning])))

    def apply(self, step: Step) -> None:
        """Nothing is ever planned."""

    def result(self, state: ValidatePodsState, plan: Plan) -> t.Dict[str, t.Any]:
        """Return the checks."""
        return _describe(state)


def _named(resource: str) -> str:
    return f"pod with {resource}"


def _describe(state: ValidatePodsState) -> t.Dict[str, t.Any]:
    return {**describe_checks(state.checks), "allocatable": state.offered}

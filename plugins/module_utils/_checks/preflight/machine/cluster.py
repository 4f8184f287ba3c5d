# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What only the cluster knows, asked on the controller: its version, and whether it has what shares need."""

from __future__ import annotations

import typing as t

from ...._base.errors import NodeError
from ...._cluster.machine.api import FORBIDDEN, ApiError, if_there
from ...._cluster.machine.client import KubernetesApi
from ...._cluster.trial import GROUP
from .. import dra
from ..problems import Problem

KUBECONFIG, CONTEXT = dra.KUBECONFIG, "gpu_nodes_context"


def check(
    values: t.Mapping[str, t.Any], connect: t.Callable[[str, str], KubernetesApi] = KubernetesApi
) -> t.List[Problem]:
    """Return what a cluster lacks for these variables. Without a kubeconfig nothing is asked."""
    kubeconfig = str(values.get(KUBECONFIG) or "")
    if not kubeconfig or not dra.is_desired(values):
        return []
    try:
        api = connect(kubeconfig, str(values.get(CONTEXT) or ""))
        output = str(api.ask("asking for the version", "GET", "/version").get("gitVersion", ""))
        if refused := dra.of_version(values, output):
            return refused
        served = if_there(lambda: api.ask("looking for DRA", "GET", GROUP)) is not None
        return dra.of_server(
            values, output, served=served, trial=_try_slice(api) if served else None
        )
    except ApiError as error:
        correct = "correct gpu_nodes_kubeconfig or gpu_nodes_context"
        hint = f"see that the API server answers, and {correct}"
        return [Problem(KUBECONFIG, f"{KUBECONFIG}: {error}", hint)]
    except NodeError as error:
        return [Problem(KUBECONFIG, f"{error.message}: {error.cause}", error.hint)]


def _try_slice(api: KubernetesApi) -> t.Optional[t.Mapping[str, t.Any]]:
    """Return what the server would keep of a slice; nothing is made. None: it does not let us ask."""
    try:
        return api.ask(
            "trying a slice", "POST", f"{GROUP}/resourceslices", dra.TRIAL, query={"dryRun": "All"}
        )
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return None

# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the webhook's objects fit HAMi's configuration."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hami_config
short_description: Make the webhook's objects fit HAMi's configuration
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Reads HAMi's device-config.yaml as C(gpu-cluster webhook) does, and returns the objects of C(files/kubernetes/dra)
    with the names of its resources in the webhook's C(matchConditions).
  - Another configuration or option is another pod template, as the webhook reads both when it starts. The Deployment
    comes last, after what its pods read.
positional: text
options:
  _input:
    description: Objects, and Lists of objects.
    type: list
    elements: dict
    required: true
  text:
    description: The text of HAMi's device-config.yaml; empty for HAMi's own names.
    type: str
    required: true
  count_alone:
    description: What a count without memory is where the configuration has a default memory.
    type: str
    choices: [whole, share]
    default: whole
  schedulers:
    description: The schedulers of HAMi's pods, which become the default one's.
    type: list
    elements: str
    default: [hami-scheduler]
"""

EXAMPLES = r"""
- name: Refuse what the webhook would not read
  ansible.builtin.assert:
    that: found.refused == ''
    fail_msg: "{{ found.refused }}"
  vars:
    found: "{{ objects | gpu.node.hami_config(lookup('ansible.builtin.file', 'device-config.yaml')) }}"
"""

RETURN = r"""
_value:
  description:
    - The objects, in C(objects), and in C(refused) why the text can't be used, empty where it can.
    - C(notes) has what of the text has no effect, or another effect than may be expected.
  type: dict
"""

import hashlib
import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.errors import (
    InputError,
    NodeError,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.objects.state import flat
from ansible_collections.gpu.node.plugins.plugin_utils.controller.daemon import imported

VARIABLE = "fractions_device_config"
SCHEDULERS_VARIABLE = "fractions_hami_schedulers"
ANNOTATION = "gpu.node/device-config"
DEPLOYMENT = "Deployment"
HOOK = "MutatingWebhookConfiguration"
Json = t.Dict[str, t.Any]


def hami_config(
    objects: t.Sequence[Json],
    text: str,
    count_alone: str = "whole",
    schedulers: t.Sequence[str] = ("hami-scheduler",),
) -> t.Dict[str, t.Any]:
    """Return the objects that fit HAMi's configuration, or why there are none."""
    hami = imported("gpu_cluster.hami.settings")
    try:
        parsed = hami.parse(text, VARIABLE, needed=True) if text else hami.Settings()
    except imported("gpu_plugin.config.strict_yaml").ConfigError as error:
        return {"objects": [], "notes": [], "refused": _refusal(error)}
    if not hami.are_schedulers(schedulers):
        error = InputError.of(SCHEDULERS_VARIABLE, schedulers, hami.SCHEDULERS)
        return {"objects": [], "notes": [], "refused": str(error)}
    settings = hami.configured(parsed, schedulers=",".join(schedulers), count_alone=count_alone)
    digest = _digest(text, settings, hami.Settings())
    fitted = [_fitted(manifest, settings, digest) for manifest in flat(objects).values()]
    fitted.sort(key=lambda manifest: manifest["kind"] == DEPLOYMENT)
    return {"objects": fitted, "notes": list(settings.notes), "refused": ""}


def _digest(text: str, settings: t.Any, usual: t.Any) -> str:
    """Return a digest of what the webhook's pods read when they start, empty if that is nothing."""
    names = ("count_alone", "schedulers")
    choices = {name: getattr(settings, name) for name in names}
    chosen = {name: choice for name, choice in choices.items() if choice != getattr(usual, name)}
    parts = [text, *(f"{name}={value}" for name, value in sorted(chosen.items()))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16] if any(parts) else ""


def _fitted(manifest: Json, settings: t.Any, digest: str) -> Json:
    """Return an object that fits these settings.

    The Deployment's pods have the digest as an annotation, so that other settings are other pods. Nothing is copied by
    ``copy.deepcopy``: of what a template returns, it copies all variables of the run, too.
    """
    if manifest["kind"] == HOOK:
        condition = {"expression": imported("gpu_cluster.hami.cel").expression(settings)}
        hooks = []
        for hook in manifest["webhooks"]:
            (first,) = hook["matchConditions"]
            hooks.append({**hook, "matchConditions": [{**first, **condition}]})
        return {**manifest, "webhooks": hooks}
    if manifest["kind"] == DEPLOYMENT and digest:
        spec = manifest["spec"]
        template = spec["template"]
        metadata = template["metadata"]
        annotations = {**metadata["annotations"], ANNOTATION: digest}
        template = {**template, "metadata": {**metadata, "annotations": annotations}}
        return {**manifest, "spec": {**spec, "template": template}}
    return manifest


def _refusal(error: NodeError) -> str:
    hint = "correct it in HAMi's file, or leave the key out"
    if "missing" in error.details:
        hint = (
            "give the file's text: \"{{ lookup('ansible.builtin.file', 'device-config.yaml') }}\""
        )
    return str(NodeError(str(error), hint=hint))


class FilterModule:
    """The filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Return it by its name."""
        return {"hami_config": hami_config}

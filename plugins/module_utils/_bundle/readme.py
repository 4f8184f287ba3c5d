# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What stands in a bundle's README.md."""

from __future__ import annotations

import typing as t

TEXT = """\
# A bundle of {name} {version} for machines without a way to the Internet

Made for Python {pythons} on {architectures}. What is in it, with the SHA-256 of each file: `bundle.json`, `SHA256SUMS`.

| Here | What it is |
| --- | --- |
| `wheels/` | the device plugin's libraries, for `device_plugin_wheelhouse` |
{webhook}| `collections/` | the collection, with those that it needs |
{images}| `packages/` | for each distribution, the packages that your mirror must have |

## Verify it first

On the machine that runs Ansible, with no network, in a folder that is not the bundle's:

```
BUNDLE=/path/of/this/folder DIGEST=what-the-run-has-printed
(cd $BUNDLE && echo "$DIGEST  SHA256SUMS" | sha256sum --check && sha256sum --check --strict --quiet SHA256SUMS) &&
ansible-galaxy collection install --offline $(sed -n "s|.*  collections/|$BUNDLE/collections/|p" $BUNDLE/SHA256SUMS) &&
ansible-playbook gpu.node.bundle -e bundle_state=verified -e bundle_path=$BUNDLE -e bundle_sha256=$DIGEST
```

DIGEST is what the run that made the bundle has printed. Have it, and these lines, by another way than the bundle: who
can change a file here can change `SHA256SUMS` and this file too. A file that was changed or is missing ends it before
any is used, no collection is taken that is not listed, and the playbook refuses by its name what is not of the bundle.

## Use it

1. Mirror the packages of `packages/` for your distribution, each with what it depends on, and name that mirror in the
   nodes' package sources, or in `nvidia_driver_repository` and `container_toolkit_repository`.
2. Set `device_plugin_wheelhouse: BUNDLE/wheels` for the nodes. No package index is asked then.
3. Run `ansible-playbook gpu.node.gpu_nodes --check`, and then without `--check`.
{load}
docs/operations/air-gap.md of the collection is the whole recipe, with mirrors, proxies and authorities of your own.
"""
LOAD = """\
4. Load the images on the nodes, or push them to your registry:
   `ctr --namespace k8s.io images import images/FILE`. docs/operations/container.md says how the DaemonSet is run.
"""


def render(made_of: t.Mapping[str, t.Any]) -> str:
    """Return the README.md of a bundle."""
    images = made_of["images"]
    webhook = "| `webhook-wheels/` | what the webhook's image needs besides |\n"
    archives = "| `images/` | container images as archives |\n"
    return TEXT.format(
        name=made_of["collection"]["name"],
        version=made_of["collection"]["version"],
        pythons=", ".join(made_of["pythons"]),
        architectures=" and ".join(made_of["architectures"]),
        webhook=webhook if made_of["webhook_requirements"] else "",
        images=archives if images else "",
        load=LOAD if images else "",
    )

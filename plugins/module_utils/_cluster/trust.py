# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Warnings about servers and images that others could replace on the way to a cluster or in it. Pure."""

from __future__ import annotations

import ipaddress
import typing as t
from urllib.parse import urlsplit

from .._base.text.shown import shown


def exposed(server: str, *, verifies: bool) -> str:
    """Return a warning if others on the network path can impersonate an API server; empty if they can't."""
    parts = urlsplit(server)
    if (parts.scheme == "https" and verifies) or _is_here(parts.hostname or ""):
        return ""
    unchecked = "checking its certificate (insecure-skip-tls-verify)"
    missing = unchecked if parts.scheme == "https" else "TLS"
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return (
        f"{address} is asked without {missing}, so that anyone on the network path gets the kubeconfig's credentials."
        " Next step: name an address with https and the certificate-authority of its cluster in the kubeconfig"
    )


def unpinned(image: str, variable: str) -> str:
    """Return a warning about an image that a variable names by its tag alone; empty if it has a digest."""
    if not image or "@sha256:" in image:
        return ""
    return (
        f"{variable}: {shown(image)} has no digest, so that a registry may give another image by that name. Next step:"
        " name it as IMAGE@sha256:..."
    )


def images(value: t.Any) -> t.Iterator[str]:
    """Yield the images of all containers of an object."""
    if isinstance(value, list):
        for item in value:
            yield from images(item)
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("containers", "initContainers") and isinstance(item, list):
                named = (each.get("image") for each in item if isinstance(each, dict))
                yield from (str(image) for image in named if image)
            else:
                yield from images(item)


def _is_here(host: str) -> bool:
    """Return whether a host is this machine, which is reached without a network."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

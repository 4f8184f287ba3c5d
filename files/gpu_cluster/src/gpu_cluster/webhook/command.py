# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command ``gpu-cluster webhook``."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpu_plugin._shared._base.errors import InputError, NodeError
from gpu_plugin.config import schema
from gpu_plugin.tools import bounded, commands, logs

from ..hami import nodes
from ..hami import options as hami_options

if TYPE_CHECKING:
    from gpu_plugin.cluster.access import Access

    from .service import Sources

LONGEST: Final = 256 << 10
LEAST_TTL, MOST_TTL = 600.0, 366 * 86400.0
TEXTS: Final = (
    (
        *("listen", "GPU_WEBHOOK_LISTEN", "ADDRESS:PORT", "0.0.0.0:8443"),
        "where reviews are served by HTTPS",
    ),
    (
        *("metrics-address", "GPU_WEBHOOK_METRICS_ADDRESS", "ADDRESS:PORT", "0.0.0.0:9404"),
        "where health and metrics are served over HTTP; off: nowhere",
    ),
    ("kubeconfig", "KUBECONFIG", "FILE", "", "access to the API (default: the pod's own)"),
    ("namespace", "NAMESPACE", "NAME", "gpu-node", "the webhook's own namespace"),
    (
        *("service", "GPU_WEBHOOK_SERVICE", "NAME", "gpu-node-webhook"),
        "the Service that API servers call",
    ),
    (
        *("dns-names", "GPU_WEBHOOK_DNS_NAMES", "NAME,...", ""),
        "more names or addresses for the certificate",
    ),
    (
        *("tls-cert-file", "GPU_WEBHOOK_TLS_CERT_FILE", "FILE", ""),
        "a certificate that somebody else renews, such as cert-manager (default: the webhook's own)",
    ),
    ("tls-private-key-file", "GPU_WEBHOOK_TLS_PRIVATE_KEY_FILE", "FILE", "", "its key"),
    (
        *("tls-secret", "GPU_WEBHOOK_TLS_SECRET", "NAME", "gpu-node-webhook-tls"),
        "the Secret that keeps the webhook's own certificates",
    ),
    (
        *("webhook-configuration", "GPU_WEBHOOK_CONFIGURATION", "NAME", "gpu-node-webhook"),
        "the MutatingWebhookConfiguration that gets the webhook's own path and CA bundle",
    ),
    (
        *("path", "GPU_WEBHOOK_PATH", "PATH", ""),
        "the path of reviews, where you write it into the configuration (default: the webhook's own)",
    ),
    (
        *("path-secret", "GPU_WEBHOOK_PATH_SECRET", "NAME", "gpu-node-webhook-path"),
        "the Secret that keeps the webhook's own path",
    ),
    *hami_options.TEXTS,
    ("node-config", "HAMI_NODE_CONFIG", "FILE", "", "HAMi's config.json of nodes"),
    (
        *("template-ttl", "GPU_WEBHOOK_TEMPLATE_TTL", "SECONDS", "86400"),
        "how long a template stays that no pod uses",
    ),
)


def fill(command: argparse.ArgumentParser) -> None:
    """Give the command its options."""
    commands.texts(command, TEXTS)
    command.add_argument(
        "--show-node",
        metavar="NAME",
        default="",
        help="print how HAMi's settings of a node are written in the device plugin's configuration, and exit",
    )
    command.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    hami = hami_options.read_settings(options, _read)
    path = options.node_config
    known = nodes.parse(_read(path), path) if path else {}
    for note in hami.notes:
        if not (options.show_node and note in hami.node_notes):
            logs.warning(note)
    if options.show_node:
        node = known.get(options.show_node, nodes.HamiNode())
        print(nodes.shown(hami, node, options.show_node), end="")
        return 0
    try:
        from . import service  # brings aiohttp and cryptography in
    except ImportError as error:
        raise NodeError(
            "gpu-cluster webhook can't start here",
            cause=str(error),
            hint="run it from its image, or install gpu_cluster's requirements.txt in addition to gpu_plugin's",
        ) from error
    if (listen := schema.address("--listen", options.listen)) is None:
        expected = "an address, as API servers have to call it"
        raise InputError.of("--listen", options.listen, expected)
    chosen = service.Options(
        listen,
        schema.address("--metrics-address", options.metrics_address),
        _ttl(options.template_ttl),
        hami,
        options.namespace,
    )
    sources = _sources(options)

    async def serve() -> int:
        return await service.Service(chosen, service.access(options.kubeconfig), sources).run()

    try:
        return asyncio.run(serve())
    except OSError as error:
        raise NodeError("the webhook can't listen", cause=str(error)) from error


def _read(path: str) -> str:
    try:
        return bounded.read_text(Path(path), LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        raise NodeError(f"{path} can't be read", cause=str(error)) from error


def _sources(options: argparse.Namespace) -> Callable[[Access], Sources]:
    """Return the factory of the sources: files or a Secret for the certificate, an option or a Secret for the path."""
    from .certificates.managed import Managed
    from .certificates.serving import Files
    from .service import Sources
    from .shared import PATTERN, SharedObjects
    from .shared import Path as OwnPath

    paths = (options.tls_cert_file, options.tls_private_key_file)
    if any(paths) and not all(paths):
        missing = "tls-private-key-file" if paths[0] else "tls-cert-file"
        raise InputError.of(f"--{missing}", "", "a file, as the other one is given")
    path = options.path.removeprefix("/")
    if path and not PATTERN.fullmatch(path):
        expected = "up to 128 letters, digits, - and _, which nobody can guess"
        raise InputError.of("--path", options.path, expected)
    host = f"{options.service}.{options.namespace}.svc"
    more = [name.strip() for name in options.dns_names.split(",") if name.strip()]
    names = (host, f"{host}.cluster.local", *more)

    def made(access: Access) -> Sources:
        api = SharedObjects(access, options.namespace, options.webhook_configuration)
        managed = Managed(api, options.tls_secret, names)
        certificate = Files(*map(Path, paths)) if all(paths) else managed
        own_path = OwnPath(api, options.path_secret)
        return Sources(certificate.look, (lambda _time: (path,)) if path else own_path.look)

    return made


def _ttl(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not LEAST_TTL <= seconds <= MOST_TTL:
        expected = f"seconds from {LEAST_TTL:.0f} to {MOST_TTL:.0f}"
        raise InputError.of("--template-ttl", text, expected)
    return seconds

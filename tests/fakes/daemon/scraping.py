# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Reads a daemon's metrics as Prometheus does."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families as families


def free_port() -> int:
    """Return a port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Metrics:
    """The metrics at an address of this machine."""

    def __init__(self) -> None:
        self.address = f"127.0.0.1:{free_port()}"

    def get(self, path: str) -> tuple[int, str]:
        """Return a page's status and content; 0 when nobody answers."""
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()
        except OSError:
            return 0, ""

    def names(self) -> set[str]:
        """Return the names of our families, as they are written in queries."""
        found = set()
        for family in families(self.get("/metrics")[1]):
            name = family.name + ("_total" if family.type == "counter" else "")
            found |= {name} if name.startswith("gpu_plugin_") else set()
        return found

    def value(self, name: str, **labels: str) -> float | None:
        """Return a sample's value; labels that are not named may be anything."""
        for family in families(self.get("/metrics")[1]):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        return None

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Reads a daemon's metrics as Prometheus does."""

from __future__ import annotations

import os
import socket
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families as families

from tests.support.waiting import LIMIT

# This process' own: a port of it that is free stays so, whoever else looks for ports on this machine.
HOST = f"127.{os.getpid() >> 16}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"


def free_address() -> tuple[str, int]:
    """Return an address of this machine at which nobody listens."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return HOST, int(probe.getsockname()[1])


class Metrics:
    """The metrics at an address of this machine."""

    def __init__(self) -> None:
        self.address = "{}:{}".format(*free_address())

    def get(self, path: str) -> tuple[int, str]:
        """Return a page's status and content; 0 when nobody answers."""
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=LIMIT) as answer:
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

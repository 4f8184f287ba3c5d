# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The path of reviews over hours: API servers show it to tenants while no webhook answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from gpu_cluster.webhook.shared import KNOWN, RENEW, SINCE, Path, encoded, leading
from gpu_plugin._shared._cluster.machine.api import CONFLICT, ApiError

Json = dict[str, Any]
NOW, LOOK = 1_800_000_000.0, 15.0
SERVICE = {"service": {"namespace": "gpu-node", "name": "gpu-node-webhook", "port": 443}}


class Told:
    """A Secret and a configuration. ``conflicts`` is how many writes are refused, as another replica was quicker."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.client: Json = SERVICE
        self.writes = self.conflicts = 0

    def secret(self, _name: str) -> Json:
        return {"data": dict(self.data), "metadata": {"annotations": dict(self.notes)}}

    def write(self, _secret: Json, data: Json, notes: Json) -> None:
        if self.conflicts:
            self.conflicts -= 1
            raise ApiError("writing", "changed", status=CONFLICT)
        self.writes += 1
        self.data, self.notes = {key: encoded(one) for key, one in data.items()}, notes

    def configuration(self) -> Json:
        return {}

    def configure(self, _configuration: Json, wanted: Callable[[Json], Json]) -> None:
        self.client = wanted(self.client)

    @property
    def path(self) -> str:
        return str(self.client["service"]["path"]).removeprefix("/")


def test_at_each_moment_all_replicas_hear_what_api_servers_ask() -> None:
    told, seen = Told(), list[str]()
    replicas = [Path(told, "s") for _each in range(2)]  # type: ignore[arg-type]
    heard: list[tuple[str, ...]] = [one.look(NOW) for one in replicas]
    for turn in range(1, 1000):
        number = turn % 2
        heard[number] = replicas[number].look(NOW + turn * LOOK / 2)
        assert all(told.path in paths for paths in heard)
        seen.append(told.path)
    paths = list(dict.fromkeys(seen))
    assert len(paths) == told.writes == 1 + int(1000 * LOOK / 2 / (RENEW + KNOWN))
    assert len({path for path in paths if len(path) == 64}) == len(paths)
    assert max(seen.count(path) for path in paths) * LOOK / 2 <= RENEW + 2 * KNOWN


def test_api_servers_take_each_path_of_a_service() -> None:
    # A segment of it is a subdomain of RFC 1123 to them, and another one is refused with status 422.
    for _each in range(50):
        (path,) = Path(Told(), "s").look(NOW)  # type: ignore[arg-type]
        assert re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", path)


def test_a_path_of_an_earlier_release_is_replaced_at_once() -> None:
    told = Told()
    told.data = {"paths": encoded("nB_" + "a" * 40)}
    told.notes = {SINCE: f"{NOW:.0f}"}
    assert Path(told, "s").look(NOW)[0] == told.path  # type: ignore[arg-type]
    assert told.path.islower()


def test_one_that_was_shown_is_forgotten() -> None:
    told = Told()
    one = Path(told, "s")  # type: ignore[arg-type]
    (shown,) = one.look(NOW)
    later = NOW + RENEW + KNOWN
    assert shown in one.look(later)
    assert shown in one.look(later + KNOWN)
    assert shown not in one.look(later + 2 * KNOWN)


def test_the_second_of_two_replicas_takes_the_path_of_the_first() -> None:
    told = Told()
    told.conflicts = 1
    first = Path(told, "s").look(NOW)  # type: ignore[arg-type]
    assert Path(told, "s").look(NOW) == first  # type: ignore[arg-type]
    assert told.writes == 1


@pytest.mark.parametrize("skew", [-0.2, -20.0, 20.0])
def test_clocks_of_replicas_may_differ(skew: float) -> None:
    told, start = Told(), NOW + 0.7
    replicas = [Path(told, "s") for _each in range(2)]  # type: ignore[arg-type]
    heard = [replicas[0].look(start), replicas[1].look(start + skew)]
    assert told.writes == 1
    for turn in range(1, 500):
        number = turn % 2
        heard[number] = replicas[number].look(start + turn * LOOK / 2 + number * skew)
        assert all(told.path in paths for paths in heard)


@pytest.mark.parametrize(
    ("text", "since"),
    [("", ""), ("short", "1800000000"), ("a" * 64 + " b", "1"), ("a" * 64, "x"), ("a" * 64, "-1"),
     ("a" * 64, "1900000000")],
)  # fmt: skip
def test_what_cant_be_read_is_made_anew(text: str, since: str) -> None:
    told = Told()
    told.data, told.notes = {"paths": encoded(text)}, {SINCE: since}
    paths = Path(told, "s").look(NOW)  # type: ignore[arg-type]
    assert told.path in paths
    assert len(paths[0]) == 64
    assert paths[0] != "a" * 64


def test_a_path_is_of_a_service_or_an_address() -> None:
    assert leading({**SERVICE, "caBundle": "x"}, "p")["service"]["path"] == "/p"
    assert leading({"url": "https://x:1/old?a=b"}, "p") == {"url": "https://x:1/p?a=b"}
    assert leading({"url": "https://x:1"}, "p") == {"url": "https://x:1/p"}

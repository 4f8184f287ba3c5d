# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The keys of GPU Feature Discovery in the configuration."""

from __future__ import annotations

import pytest
from gpu_plugin.config.configuration import Gfd, parse
from gpu_plugin.config.strict_yaml import ConfigError

PATHS = {
    "oneshot": ("GFD_ONESHOT", "true", True),
    "no_timestamp": ("GFD_NO_TIMESTAMP", "true", True),
    "sleep": ("GFD_SLEEP_INTERVAL", "1m30s", 90.0),
    "output_file": ("GFD_OUTPUT_FILE", "/tmp/features", "/tmp/features"),
    "machine_type_file": ("GFD_MACHINE_TYPE_FILE", "/etc/machine", "/etc/machine"),
    "node_feature_api": ("GFD_USE_NODE_FEATURE_API", "true", True),
}


@pytest.mark.parametrize("name", PATHS)
def test_the_environments_names_are_nvidias(name: str) -> None:
    variable, text, expected = PATHS[name]
    assert getattr(parse("", env={variable: text}).gfd, name) == expected
    assert getattr(Gfd(), name) != expected


def test_the_file_has_all_of_them() -> None:
    text = """
flags:
  useNodeFeatureAPI: false
  gfd: {oneshot: true, noTimestamp: true, sleepInterval: infinite, outputFile: "", machineTypeFile: /m}
"""
    assert parse(text).gfd == Gfd(True, True, None, "", "/m", False)


def test_a_flag_wins_over_the_environment_over_the_file() -> None:
    text, env = "flags: {gfd: {sleepInterval: 2m}}", {"GFD_SLEEP_INTERVAL": "3m"}
    assert parse(text).gfd.sleep == 120
    assert parse(text, env=env).gfd.sleep == 180
    assert parse(text, env=env, flags={"flags.gfd.sleepInterval": "4m"}).gfd.sleep == 240


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60s", 60.0),
        ("1h0m1.5s", 3601.5),
        ("1500ms", 1.5),
        ("60000000000", 60.0),
        ("infinite", None),
    ],
)
def test_durations_are_gos(text: str, expected: float | None) -> None:
    assert parse(f"flags: {{gfd: {{sleepInterval: {text}}}}}").gfd.sleep == expected


@pytest.mark.parametrize("text", ["60", "0s", "ten", "1d", "5 s", "-1s", "9000h", "''"])
def test_other_durations_are_refused_by_name(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"c\.yaml: line 1: flags\.gfd\.sleepInterval: '.*' is not v"
    ):
        parse(f"flags: {{gfd: {{sleepInterval: {text}}}}}", "c.yaml")
    with pytest.raises(ConfigError, match="environment variable GFD_SLEEP_INTERVAL"):
        parse("", env={"GFD_SLEEP_INTERVAL": text})

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Names of other tools' variables, as they are read from texts like theirs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.docs.tables import upstream

GO = """
type Config struct {
    Version string `json:"version" yaml:"version"`
    Flags   Flags  `json:"flags,omitempty" yaml:"flags,omitempty"`
    Items   []Item `json:"items"`
    Driver  *Spec  `json:"driver,omitempty"`
    Env     []EnvVar `json:"env,omitempty"`
}
type Flags struct {
    CommandLine
}
type CommandLine struct {
    MigStrategy *string `json:"migStrategy" yaml:"migStrategy"`
}
type Item struct {
    Common `json:",inline"`
    // Devices of the item
    Devices Devices `json:"devices" yaml:"devices,flow"`
}
type Common struct {
    Name string `json:"name"`
}
type Devices struct {
    All bool
}
type Spec struct {
    Hidden string `json:"-"`
    Image  string `json:"image,omitempty"`
}
type EnvVar struct {
    Name string `json:"name"`
}
""".replace("    ", "\t")
CLI = """
    &cli.StringFlag{
        Name:    "mig-strategy",
        EnvVars: []string{"GFD_MIG_STRATEGY", "MIG_STRATEGY"},
    },
""".replace("    ", "\t")
ANSIBLE = """---
# a comment: with a colon
driver_branch: "580"
# driver_state: present
#driver_later:
  nested: no
driver_url: https://example.com/
"""


def test_fields_of_go_types_are_paths() -> None:
    found = [
        "driver.image",
        "env",
        "flags.migStrategy",
        "items[].devices",
        "items[].name",
        "version",
    ]
    assert sorted(upstream.types(GO, "Config")) == found


def test_flags_and_variables_of_commands() -> None:
    assert set(upstream.cli(CLI)) == {"--mig-strategy", "GFD_MIG_STRATEGY", "MIG_STRATEGY"}
    flags = 'rootCmd.Flags().StringVar(&config.HTTPBind, "http_bind", "127.0.0.1", "address")'
    assert list(upstream.flags(flags)) == ["--http_bind"]


def test_values_and_what_templates_ask_for() -> None:
    assert sorted(upstream.values("{a: {b: 1, c: {}}, d: []}")) == ["a.b", "a.c", "d"]
    assert list(upstream.templates("{{ .Values.a.later }} {{ .Values.d }}.")) == ["a.later", "d"]
    assert upstream.only_leaves({"a", "a.b", "ab", "d"}) == ["a.b", "ab", "d"]


def test_variables_of_ansible_also_those_commented_out() -> None:
    names = ["driver_branch", "driver_state", "driver_later", "driver_url"]
    assert list(upstream.variables(ANSIBLE)) == names


def test_a_checkout_is_recorded_with_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "DATA", tmp_path)
    checkout = tmp_path / "checkout"
    (checkout / "defaults").mkdir(parents=True)
    (checkout / "defaults/main.yml").write_text(ANSIBLE)
    git = ("git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-qm", "one"],
        ["tag", "-am", "1", "v1"],
    ):
        subprocess.run([*git, *words], check=True)
    read = {"of": "role", "kind": "variables", "paths": ["defaults"], "without": ["driver_url"]}
    (tmp_path / "page.yml").write_text(yaml.safe_dump({"reads": [read]}))
    upstream.record("page", str(checkout))
    found = yaml.safe_load((tmp_path / "page.names.yml").read_text())
    assert found["names"] == {"role": ["driver_branch", "driver_later", "driver_state"]}
    assert (found["release"], len(found["commit"])) == ("v1", 40)
    (tmp_path / "page.yml").write_text(yaml.safe_dump({"reads": [{**read, "paths": ["no"]}]}))
    with pytest.raises(SystemExit, match="no: not in"):
        upstream.record("page", str(checkout))

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Variables that nobody can read are named before anything else is done with them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

PLAY = [
    {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [
            {
                "ansible.builtin.import_role": {
                    "name": "gpu.node.common",
                    "tasks_from": "check_variables",
                }
            },
            {"ansible.builtin.debug": {"msg": "all can be read"}},
        ],
    }
]
READ = "all can be read"


def play(folder: Path, *options: str) -> str:
    """Check the variables that lie beside the play, and return what is said."""
    (folder / "play.yml").write_text(yaml.safe_dump(PLAY))
    words = ["ansible-playbook", "--inventory", "node,", "--connection", "local"]
    done = subprocess.run(
        [*words, *options, "play.yml"], cwd=folder, check=False, capture_output=True, text=True
    )
    return " ".join(done.stdout.split())


@pytest.fixture
def vaulted(tmp_path: Path) -> Path:
    """A folder with ``mig_selected`` and ``gpu_nodes_context`` in a vault, and its password in a file."""
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "group_vars").mkdir()
    words = ["ansible-vault", "encrypt_string", "--vault-password-file", "password", "--name"]
    texts = [
        subprocess.run([*words, name, "half"], cwd=tmp_path, check=True, capture_output=True).stdout
        for name in ("mig_selected", "gpu_nodes_context")
    ]
    (tmp_path / "group_vars/all.yml").write_bytes(b"".join(texts))
    return tmp_path


def test_a_vault_without_its_password_names_the_variables(vaulted: Path) -> None:
    said = play(vaulted)
    assert "variables: node: " in said
    assert "mig_selected: it can't be read: " in said
    assert "gpu_nodes_context: it can't be read: " in said
    assert "Next step: give the vault's password, with --ask-vault-pass or" in said
    assert READ not in said


def test_a_vault_with_its_password_is_read(vaulted: Path) -> None:
    said = play(vaulted, "--vault-password-file", "password")
    assert READ in said
    assert "it can't be read" not in said


def test_what_refers_to_nothing_is_named(tmp_path: Path) -> None:
    said = play(tmp_path, "--extra-vars", "cdi_path={{ nowhere }}")
    assert "variables: node: cdi_path: it can't be read: " in said
    assert "'nowhere' is undefined" in said
    assert READ not in said


def test_a_file_that_is_beside_the_inventory_is_named_from_there(tmp_path: Path) -> None:
    file = "{{ lookup('ansible.builtin.file', 'layouts.yml') }}"
    said = play(tmp_path, "--extra-vars", f'mig_config="{file}"')
    assert "variables: node: mig_config: it can't be read: " in said
    assert "a file next to the inventory is inventory_dir ~ '/NAME'" in said


def test_what_others_set_is_none_of_ours(tmp_path: Path) -> None:
    assert READ in play(tmp_path, "--extra-vars", "somebody_elses={{ nowhere }}")

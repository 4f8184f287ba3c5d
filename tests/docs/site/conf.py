# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Sphinx's settings for the pages of modules, plugins and roles. Nothing is fetched while they are built."""

import tempfile
import zlib
from pathlib import Path

project = title = html_short_title = html_title = "gpu.node"
copyright = "the gpu.node authors"
author = "the gpu.node authors"

extensions = ["sphinx.ext.intersphinx", "sphinx_antsibull_ext"]
html_theme = "sphinx_ansible_theme"
html_theme_options = {"documentation_home_url": "index.html", "topbar_links": {}}
pygments_style = "ansible"
highlight_language = "YAML+Jinja"
default_role = "any"
nitpicky = True
# What ansible-core and other collections document is elsewhere; its names are shown without a link.
nitpick_ignore_regex = [
    (r".*", r"ansible_collections\.(?!gpu\.node\.).*"),
    (r"envvar", r"ANSIBLE_.*"),
]

html_show_sphinx = False
html_copy_source = False
html_use_index = False
html_use_modindex = False

# The pages of Ansible's own that ours refer to, by the labels that they have there.
ANSIBLE = "https://docs.ansible.com/projects/ansible/latest/"
LABELS = {
    "action_plugins": "plugins/action.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "callback_plugins": "plugins/callback.html",
    "common_return_values": "reference_appendices/common_return_values.html",
}
HEAD = b"# Sphinx inventory version 2\n# Project: Ansible\n# Version: \n# The rest is compressed by zlib.\n"


def inventory() -> str:
    """Return a file of these labels, as Sphinx reads them."""
    lines = "".join(f"{label} std:label -1 {page} -\n" for label, page in LABELS.items())
    path = Path(tempfile.mkdtemp()) / "objects.inv"
    path.write_bytes(HEAD + zlib.compress(lines.encode()))
    return str(path)


intersphinx_mapping = {"ansible": (ANSIBLE, inventory())}

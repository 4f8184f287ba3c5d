# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page about what root opens where others may write is written from the code."""

from __future__ import annotations

import ast
import re

from tests.docs.places import places

# Whoever calls them walks a tree; each is on this list with what makes it root's own.
WALKS = re.compile(r"\b(?:shutil\.rmtree|os\.walk)\(|\.rglob\(")
OWN = {
    "_bundle/capability.py:_files": "a bundle, whose files have digests",
    "_machine/host.py:Host.sizes": "the environment below a prefix of root's",
    "_machine/host.py:Host.remove": "files of the collection",
    "_repair/evidence/machine/archives.py:Archives.making": "a folder of root's, made by this run",
}


def test_the_page_lists_who_opens_what_others_may_write() -> None:
    assert places.shown() == places.table(), "run make docs-tables"
    assert all(places.found().values())


def test_nobody_walks_a_tree_that_is_not_roots_own() -> None:
    walking = {name for name, text in places.functions() if WALKS.search(text)}
    assert walking == set(OWN)


def test_a_function_is_listed_by_its_code_and_not_by_its_docstring() -> None:
    tree = ast.parse(
        "class A:\n    def b(self):\n        'who_writes('\n        return c(names.shm)\n"
    )
    assert list(places.each(tree)) == [("A.b", "return c(names.shm)")]

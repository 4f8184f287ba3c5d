# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The step that makes a node know the repository that the user names, or forget it."""

from __future__ import annotations

import typing as t

from ..errors import NodeError
from ..steps import Step
from .repository import REPOSITORIES, RPM_KEY, Repository, check_key, files, is_trusted, texts
from .select import Desired, Observed


def repository_step(observed: Observed, desired: Desired) -> t.Optional[Step]:
    """Return the step, None where the node has the files that are wanted and no others of ours."""
    repository = desired.repository
    if repository is None:
        stale = tuple(sorted(observed.repository))
        if not stale:
            return None
        return Step(
            "repository", f"forget the repository: remove {', '.join(stale)}", _params({}, stale)
        )
    _check_duplicate(observed, repository)
    family = observed.names.family
    text = observed.repository_key if repository.key_path else repository.key
    keys = check_key(repository, text)
    wanted = files(repository, family, keys)
    write = {path: one for path, one in wanted.items() if observed.repository.get(path) != one}
    stale = tuple(sorted(set(observed.repository) - set(wanted)))
    marks = (one.fingerprint for one in keys)
    strange = tuple(one for one in marks if not is_trusted(one, observed.trusted))
    trust = strange if family in REPOSITORIES else ()
    if not (write or stale or trust):
        return None
    words = [f"write {', '.join(sorted(write))}"] if write else []
    words += [f"remove {', '.join(stale)}"] if stale else []
    words += [f"teach rpm the key {', '.join(trust)}"] if trust else []
    summary = f"name the repository {repository.url}: {'; '.join(words)}"
    return Step("repository", summary, _params(write, stale, trust))


def _params(
    write: t.Mapping[str, str], stale: t.Tuple[str, ...], trust: t.Tuple[str, ...] = ()
) -> t.Dict[str, t.Any]:
    return {"files": write, "stale": stale, "trust": trust, "key": RPM_KEY, "shown": texts(write)}


def _check_duplicate(observed: Observed, repository: Repository) -> None:
    """Refuse a repository that another file has as well: apt refuses two keys for one address."""
    for one in observed.sources:
        same = one.uri.rstrip("/") == repository.url.rstrip("/")
        if same and one.suite.strip("/") == repository.suite.strip("/"):
            raise NodeError(
                f"the repository {repository.url} is in another file of /etc/apt already",
                cause="two entries for one address must agree in their key, or apt stops working",
                hint="remove that entry, or the package that brought it (such as cuda-keyring), then run again",
            )

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.bundle: it collects, or compares with what was collected."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import typing as t

from .._base import distributions
from .._base.errors import InputError, NodeError
from .._base.steps import Plan, Step
from .._device_plugin.failures import of_pip
from .._device_plugin.wheels import parse_requirements, refusal
from .._machine.host import Host
from . import manifest, mirror, readme
from .collection import Collection
from .machine import pip, tarball
from .manifest import LINK, LIST, SUMS, File, Manifest
from .plan import LISTS, BundleState, parse_desired, plan

# By its name, how a container engine of this machine writes an image into an archive, podman in OCI's layout.
SAVE: t.Mapping[str, t.Tuple[str, ...]] = {
    "podman": ("podman", "save", "--quiet", "--format", "oci-archive"),
    "docker": ("docker", "save"),
}
OURS = ".gpu-node-"  # what follows the bundle's name in that of the folder where it is made
BLOCK = 1 << 20
REACH = (
    "let this machine reach a package index: PIP_INDEX_URL, HTTPS_PROXY and REQUESTS_CA_BUNDLE in the environment of"
    " ansible-playbook say where it is, through what it is reached, and who has signed its certificate"
)


class BundleCapability:
    """Keeps a folder with all that a machine without a network needs, or verifies one."""

    name = "bundle"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any]) -> None:
        self._host, self._desired = host, parse_desired(params)
        self._work = self._staging = ""
        path = params["collection"]
        own = tarball.read(path)
        if own.name != "gpu.node":
            raise InputError.of("collection", path, f"gpu.node, and it is {own.name}")
        beside = os.path.dirname(os.path.dirname(path))  # what it needs is installed there
        needs = (tarball.read(os.path.join(beside, *need.split("."))) for need in own.needs)
        self._collections = [own, *needs]
        self._made_of: t.Dict[str, t.Any] = {}

    # --- observe ---

    def observe(self) -> BundleState:
        """Read the collection and, of a bundle that is there, every file."""
        path, host = self._desired.path, self._host
        self._made_of = self._made_of or self._desired_manifest()
        text = host.read(f"{path}/{LIST}")
        files = _files(path)
        sums = files.get(SUMS)
        return BundleState(
            manifest.parse(text, f"{path}/{LIST}") if text is not None else None,
            files,
            self._made_of,
            sums.sha256 if sums else "",
            tuple(self._refused(files)),
        )

    def _desired_manifest(self) -> t.Dict[str, t.Any]:
        """Return what the bundle is to be made of; what is verified is asked of no engine."""
        desired, own = self._desired, self._collections[0]
        makes = desired.state == "present"
        lists = {name: self._list(name) for name in LISTS}
        if makes and not desired.webhook:
            lists["webhook_requirements"] = ""
        digests = {
            name: hashlib.sha256(text.encode()).hexdigest() if text else None
            for name, text in lists.items()
        }
        return {
            "collection": _about(own),
            "needs": [_about(collection) for collection in self._collections[1:]],
            **digests,
            "pythons": list(desired.pythons),
            "architectures": list(desired.machines),
            "driver_version": desired.driver_version,
            "images": dict(map(self._image, desired.images)) if makes else {},
        }

    def _list(self, name: str) -> str:
        _folder, file = LISTS[name]
        listed = self._collections[0].members.get(file)
        if listed is None:
            raise NodeError(f"collection: it has no {file}", hint="name gpu.node's own")
        return listed.data.decode()

    def _image(self, name: str) -> t.Tuple[str, t.Dict[str, str]]:
        """Return an image's file in the bundle, and its name and id."""
        if os.path.isfile(name):
            return f"images/{os.path.basename(name)}", {"name": name, "id": _file(name).sha256}
        _engine, identity = self._stored(name)
        file = re.sub(r"[^A-Za-z0-9._-]+", "-", name.rpartition("/")[2])
        return f"images/{file}.tar", {"name": name, "id": identity}

    def _stored(self, name: str) -> t.Tuple[str, str]:
        """Return the engine that has an image, and the image's id.

        Raises:
            InputError: if none has it.
        """
        there = [engine for engine in SAVE if self._host.which(engine)]
        for engine in there:
            command = [engine, "image", "inspect", "--format", "{{.Id}}", name]
            completed = self._host.run(command, check=False)
            if completed.rc == 0:
                return engine, completed.out.strip().rpartition(":")[2]
        of = " and ".join(there) or "podman or Docker, neither of which is here"
        error = InputError.of("images", name, f"the path of an archive, or an image of {of}")
        error.hint = "build it from files/gpu_plugin/Containerfile, or leave it out"
        raise error

    def _refused(self, files: manifest.Files) -> t.Iterator[str]:
        """Yield why the list of this collection does not allow a wheel, for each that it does not."""
        for name, (folder, _file) in LISTS.items():
            listed = parse_requirements(self._list(name))
            for path, file in files.items():
                if path.startswith(f"{folder}/"):
                    yield from filter(None, [refusal(listed, path[len(folder) + 1 :], file.sha256)])

    # --- plan and apply ---

    def plan(self, state: BundleState) -> Plan:
        """Return the plan: all of the bundle is made anew beside the present one, or nothing is."""
        return plan(state, self._desired)

    def apply(self, step: Step) -> None:
        """Carry out one step in a folder beside the bundle's place."""
        self._work = self._work or self._begin()
        getattr(self, f"_do_{step.action}")(**step.params)

    def _begin(self) -> str:
        """Make that folder, which nobody else can write to, and remove those that killed runs of this user left."""
        pip.check(self._host)
        place, name = os.path.split(os.path.abspath(self._desired.path))
        prefix = f".{name}{OURS}"
        self._host.makedirs(place)
        for entry in self._host.listdir(place):
            status = self._host.itself(f"{place}/{entry}") if entry.startswith(prefix) else None
            if status and status.uid == os.geteuid():
                self._host.remove(f"{place}/{entry}")
        work = tempfile.mkdtemp(prefix=prefix, dir=place)
        self._staging = f"{work}/new"
        self._host.makedirs(self._staging)
        return work

    def _do_wheels(self, python: str, machine: str) -> None:
        for name, (folder, _file) in LISTS.items():
            if self._made_of[name]:
                self._download(name, folder, python, machine)

    def _download(self, name: str, folder: str, python: str, machine: str) -> None:
        listed = f"{self._staging}/{name}.txt"
        self._host.write(listed, pip.requirements(self._list(name), python, machine))
        try:
            pip.download(self._host, listed, f"{self._staging}/{folder}", python, machine)
        except NodeError as error:
            cause, _hint = of_pip(error.cause)
            error.message = f"the wheels for Python {python} on {machine} can't be fetched"
            error.cause = cause.replace("the node", "this machine")
            error.hint = REACH
            raise
        self._host.remove(listed)

    def _do_collections(self) -> None:
        self._host.makedirs(f"{self._staging}/collections")
        for collection in self._collections:
            tarball.pack(collection, f"{self._staging}/collections/{collection.file}")

    def _do_image(self, file: str, name: str) -> None:
        self._host.makedirs(f"{self._staging}/images")
        if os.path.isfile(name):
            shutil.copyfile(name, f"{self._staging}/{file}")
        else:
            engine, _identity = self._stored(name)
            self._host.run([*SAVE[engine], "--output", f"{self._staging}/{file}", name])

    def _do_packages(self) -> None:
        for distribution, name, title in distributions.releases():
            text = mirror.text(title, mirror.parts(distribution, self._desired.driver_version))
            self._host.write(f"{self._staging}/packages/{name}.txt", text)

    def _do_publish(self) -> None:
        """List what was made, and put it in place; what was there stays until then."""
        host, staging, path = self._host, self._staging, self._desired.path
        host.write(f"{staging}/README.md", readme.render(self._made_of))
        made = Manifest(self._made_of, _files(staging))
        host.write(f"{staging}/{LIST}", manifest.render(made))
        host.write(f"{staging}/{SUMS}", manifest.sums(made))
        if host.exists(path):
            host.move(path, f"{self._work}/old")
        try:
            os.rename(staging, path)
        except OSError as error:
            raise NodeError(
                f"the bundle can't be put in place as {path}",
                cause=error.strerror or str(error),
                hint="name a folder that nobody else writes to",
                key="path",
            ) from error
        host.remove(self._work)

    def result(self, state: BundleState, plan: Plan) -> t.Dict[str, t.Any]:
        """Return where the bundle is, what proves that it is this one, and how large it is."""
        size = sum(file.size for file in state.files.values())
        return {
            "bundle": {
                "path": self._desired.path,
                "sha256": state.sha256,
                "files": len(state.files),
                "size": size,
            }
        }


def _about(collection: Collection) -> t.Dict[str, str]:
    return {"name": collection.name, "version": collection.version, "sha256": collection.sha256}


def _files(folder: str) -> t.Dict[str, File]:
    """Return the files below a folder by their paths in it."""
    files = {}
    for place, folders, names in os.walk(folder):
        links = [folder for folder in folders if os.path.islink(os.path.join(place, folder))]
        for name in [*names, *links]:
            path = os.path.join(place, name)
            files[os.path.relpath(path, folder)] = _file(path)
    return files


def _file(path: str) -> File:
    if os.path.islink(path):
        return File(LINK, 0)
    total, size = hashlib.sha256(), 0
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            total.update(block)
            size += len(block)
    return File(total.hexdigest(), size)

# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The output of apt and dpkg as values, and apt's sources in both formats."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
import typing as t

from .package import WAITING, Package, Policy, Relations, Simulation, State

DPKG_FORMAT = (
    "${binary:Package}\\t${Architecture}\\t${source:Package}\\t${Version}\\t${db:Status-Abbrev}\\n"
)


HEADER = "# Written by gpu.node.nvidia_driver.\n"
BUSY = re.compile(
    r"[Cc]ould not get lock|lock was locked by|Unable to lock |is another process using it"
    r"|^debconf: .* is locked by another process",
    re.MULTILINE,
)
# apt's errors about a dpkg that was killed, by a signal or with a status that it does not know.
KILLED = re.compile(
    r"Sub-process \S+ (?:exited unexpectedly|received (?:signal \d|a segmentation fault))"
)
REFUSES_ALL = re.compile(
    r"--fix-broken install|needs to be reinstalled, but|dpkg was interrupted, you must manually run"
)
# dpkg's letter for the actual state, the second of its abbreviation.
STATES = {
    "n": State.NOT_INSTALLED,
    "c": State.CONFIG_FILES,
    "H": State.HALF_INSTALLED,
    "U": State.UNPACKED,
    "F": State.HALF_CONFIGURED,
    "W": State.TRIGGERS_AWAITED,
    "t": State.TRIGGERS_PENDING,
    "i": State.INSTALLED,
}
OWN_ENDINGS = (
    *("debian", "debian-security", "debian.list", "debian-security.list"),
    *("ubuntu", "ubuntu-ports"),
)
DISABLED = ("no", "false", "without", "off", "disable")
ENABLED = ("yes", "true", "with", "on", "enable")  # strutl.cc of apt, StringToBool
UNVERIFIED = ("trusted", "allow-insecure", "allow-weak")
PINNED = re.compile(r"^Package:[ \t]*(.+)$", re.M)
FIELD = re.compile(r"^([^\s:]+)[ \t]*:(.*(?:\n[ \t].*)*)", re.M)
ONE_LINE = re.compile(r"^[ \t]*deb[ \t]+(?:\[([^]\n]*)\][ \t]*)?(\S+)[ \t]+(\S+)([^#\n]*)", re.M)
OPTION = re.compile(r"([^\s=]+?)([-+]?)=(\S+)")
# deb822's names of options whose values one line separates by commas: sources.list(5).
MULTIVALUE = {"arch": "Architectures", "lang": "Languages", "target": "Targets"}
CHANGES = {"": "", "+": "-Add", "-": "-Remove"}
SPELLED = {"Pdiffs": "PDiffs", "Inrelease-Path": "InRelease-Path"}
# The fields of a source that are no options.
ENTRY = ("types", "uris", "suites", "components", "signed-by", "enabled")


def parse_packages(text: str) -> t.Dict[str, Package]:
    """Parse dpkg-query's output in DPKG_FORMAT.

    Packages of foreign architectures are left out, and those that are not installed, unless they are on hold.
    """
    rows = [line.split("\t") for line in text.split("\n") if line.count("\t") == 4]
    native = next((row[1] for row in rows if row[0] == "dpkg"), None)
    packages = {}
    for name, machine, source, version, letters in rows:  # wanted, actual, error
        if letters[1:2] in STATES and (native is None or machine in (native, "all", "")):
            held, state, torn = letters[0] == "h", STATES[letters[1]], letters[2:3] == "R"
            if held or state is not State.NOT_INSTALLED:
                packages[name.split(":")[0]] = Package(version, source, state, held, torn)
    return packages


def parse_policy(text: str) -> t.Dict[str, Policy]:
    """Parse ``apt-cache policy`` of several packages."""
    policies: t.Dict[str, Policy] = {}
    for block in re.split(r"^(?=\S)", text, flags=re.M):
        lines = block.split("\n")
        if not lines[0].endswith(":"):
            continue
        match = re.search(r"^  Candidate: (\S+)$", block, flags=re.M)
        candidate = None if match is None or match[1] == "(none)" else match[1]
        form = r"^ (?:\*\*\*|   ) (\S+) \d+(?: \(phased \d+%\))?$"
        versions = tuple(re.findall(form, block, flags=re.M))
        version = re.escape(candidate or "(none)")
        row = rf"^ (?:\*\*\*|   ) {version} \d+.*\n +-?\d+ \S+ \S+/(\S+) \S+ Packages$"
        source = re.search(row, block, flags=re.M)
        name, component = lines[0][:-1].split(":")[0], source[1] if source else ""
        policies[name] = Policy(candidate, versions, component)
    return policies


def parse_simulation(text: str) -> Simulation:
    """Parse the output of ``apt-get --simulate``."""
    changes = re.findall(r"^(Inst|Remv|Purg) (\S+)( \[)?", text, flags=re.M)
    return Simulation.of(
        ("removed" if action != "Inst" else "changed" if old_version else "new", name)
        for action, name, old_version in changes
    )


def parse_dependencies(text: str) -> t.FrozenSet[str]:
    """Return every package in the output of a recursive ``apt-cache depends``.

    It lists the providers of a name such as <perl:any>, but not their dependencies.
    """
    names = re.findall(r"^(?:[ |]*(?:Pre)?Depends:)? *<?(\w[^\s<>]*)>?$", text, flags=re.M)
    return frozenset(name.split(":")[0] for name in names)


def parse_relations(text: str) -> Relations:
    """Parse ``apt-cache show``: what each version of each package depends on."""
    result: t.Dict[str, t.Dict[str, t.Tuple[str, ...]]] = {}
    for stanza in text.split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][A-Za-z-]*): (.*)$", stanza, flags=re.M))
        needs = [fields[key] for key in ("Pre-Depends", "Depends") if key in fields]
        relations = tuple(relation.strip() for text in needs for relation in text.split(","))
        if "Package" in fields and "Version" in fields:
            result.setdefault(fields["Package"], {})[fields["Version"]] = relations
    return result


def upstream(version: str) -> str:
    """Return the upstream part of a version, without epoch, revision, and the kernel that SUSE adds."""
    return version.split(":", 1)[-1].rsplit("-", 1)[0].split("_k", 1)[0]


def pins_of(files: t.Mapping[str, str], names: t.Collection[str]) -> t.Dict[str, t.List[str]]:
    """Return the packages that files of preferences pin, by path, without files that pin none."""
    pinned = {}
    for path, text in files.items():
        matching = {name for line in PINNED.findall(text) for name in _matching(line, names)}
        if matching:
            pinned[path] = sorted(matching)
    return pinned


def _matching(patterns: str, names: t.Iterable[str]) -> t.List[str]:
    """Return the names that match a line of packages in preferences."""
    # A pattern for all packages is a preference for a source, and bars no package by itself.
    named = (glob for glob in patterns.split() if glob != "*")
    globs = [glob for glob in named if not glob.startswith(("src:", "/"))]
    return [name for name in names if any(fnmatch.fnmatchcase(name, glob) for glob in globs)]


def overruled_pins(
    files: t.Mapping[str, str], chosen: t.Mapping[str, str], policies: t.Mapping[str, Policy]
) -> t.Dict[str, t.List[str]]:
    """Return the packages of which apt would choose other versions by the user's preferences, by path."""
    result: t.Dict[str, t.List[str]] = {}
    for path, text in files.items():
        for record in re.split(r"\n[ \t]*\n", text):
            pin = re.search(r"^Pin:[ \t]*version[ \t]+(\S+)", record, flags=re.M)
            names = [name for line in PINNED.findall(record) for name in _matching(line, chosen)]
            for name in names:
                candidate = policies[name].candidate if name in policies else None
                if candidate in (None, chosen[name]) or name in result.get(path, ()):
                    continue
                # With a preference for a source the candidate is not the newest version.
                matches = pin and fnmatch.fnmatchcase(candidate, pin[1])
                if matches if pin else candidate != policies[name].versions[0]:
                    result.setdefault(path, []).append(name)
    return result


def unmet(text: str) -> str:
    """Return the unmet dependencies in apt's output, all of the output if there are none."""
    match = re.search(r"unmet dependencies:\n(.*)", text, flags=re.S)
    return match[1].strip("\n") if match else text


def parse_removal(text: str) -> t.List[t.Tuple[str, str]]:
    """Parse why dpkg removes nothing: pairs of a package and one that it depends on."""
    result = []
    for block in re.split(r"^(?=dpkg: )", text, flags=re.M):
        head = re.match(r"dpkg: dependency problems prevent removal of ([^\s:]+)", block)
        users = re.findall(r"^ (\S+?)(?::\S+)? (?:pre-)?depends on ", block, flags=re.M)
        result += [(user, head[1]) for user in users if head]
    return result


def refuses_all(text: str) -> bool:
    """Return whether apt refuses all transactions because of installed packages."""
    return bool(REFUSES_ALL.search(text))


def repair_command(packages: t.Mapping[str, Package]) -> str:
    """Return the command with which a person repairs broken packages."""
    torn = [name for name, package in packages.items() if package.needs_files]
    if torn:
        return f"apt-get install --reinstall {' '.join(sorted(torn))}"
    states = {package.state for package in packages.values()}
    if states <= {State.HALF_CONFIGURED, *WAITING}:
        return f"dpkg --configure {' '.join(sorted(packages))}"
    is_half = State.HALF_CONFIGURED in states
    return "dpkg --configure -a" if is_half else "apt-get --fix-broken install"


def describe_broken(packages: t.Mapping[str, Package]) -> str:
    """Return a warning about broken packages of others, empty if there are none."""
    if not packages:
        return ""
    states = ", ".join(f"{name} is {package.state.value}" for name, package in packages.items())
    return (
        f"{states}, which is not the driver's and was left so. Next step: run {repair_command(packages)} on the node, "
        "which says why"
    )


def is_busy(text: str) -> bool:
    """Return whether apt or dpkg gave up because another process holds its lock, and not because dpkg was killed."""
    return bool(BUSY.search(text)) and not KILLED.search(text)


@dataclasses.dataclass(frozen=True)
class Source:
    """Binary packages at an address.

    Attributes:
        uri: The address.
        suite: The suite, or the path of a flat repository.
        components: The components of the suite.
        signed_by: Keys, or the files that have them. Empty if any key that apt trusts will do.
        options: All other fields of the entry, by their names in deb822.
    """

    uri: str
    suite: str
    components: t.Tuple[str, ...]
    signed_by: str = ""
    options: t.Tuple[t.Tuple[str, str], ...] = ()

    @property
    def is_unverified(self) -> bool:
        """Return whether apt installs packages from it without a valid signature."""
        fields = {name.lower(): value.lower() for name, value in self.options}
        return any(fields.get(name) in ENABLED for name in UNVERIFIED)

    @property
    def has_all_architectures(self) -> bool:
        """Return whether the entry does not name its architectures."""
        return not any(name.lower().startswith("architectures") for name, _value in self.options)

    def has_architecture(self, native: str) -> bool:
        """Return whether the entry offers packages of the architecture ``native``."""
        fields = {name.lower(): value.split() for name, value in self.options}
        architectures = {*fields.get("architectures", [native])}
        architectures |= {*fields.get("architectures-add", ())}
        return native in architectures - {*fields.get("architectures-remove", ())}


def parse_one_line(text: str) -> t.List[Source]:
    """Parse a .list file."""
    sources = []
    for options, uri, suite, components in ONE_LINE.findall(text):
        fields = dict(_field(*option) for option in OPTION.findall(options.replace('"', "")))
        signed_by = fields.pop("Signed-By", "")
        names = tuple(components.split())
        sources.append(Source(uri, suite, names, signed_by, tuple(fields.items())))
    return sources


def _field(name: str, change: str, value: str) -> t.Tuple[str, str]:
    """Return deb822's field for an option of one line."""
    if name in MULTIVALUE:
        return MULTIVALUE[name] + CHANGES[change], value.replace(",", " ")
    titled = "-".join(part.capitalize() for part in name.split("-"))
    return SPELLED.get(titled, titled) + CHANGES[change], value


def parse_deb822(text: str) -> t.List[Source]:
    """Parse a .sources file; disabled stanzas and source packages are left out."""
    sources = []
    lines = [line for line in text.split("\n") if not line.startswith("#")]
    for stanza in re.split(r"\n[ \t]*\n", "\n".join(lines)):
        pairs = FIELD.findall(stanza)
        fields = {name.lower(): value.strip(" \t\r") for name, value in pairs}
        enabled = fields.get("enabled", "").lower() not in DISABLED
        if not enabled or "deb" not in fields.get("types", "").split():
            continue
        components = tuple(fields.get("components", "").split())
        names = (name for name, _value in pairs if name.lower() not in ENTRY)
        options = tuple({name: fields[name.lower()] for name in names}.items())
        sources += [
            Source(uri, suite, components, fields.get("signed-by", ""), options)
            for uri in fields.get("uris", "").split()
            for suite in fields.get("suites", "").split()
        ]
    return sources


def _is_own(source: Source) -> bool:
    return source.uri.rstrip("/").rsplit("/", 1)[-1] in OWN_ENDINGS or any(
        name in source.signed_by for name in ("debian-archive-keyring", "ubuntu-archive-keyring")
    )


def additions(
    sources: t.Sequence[Source], codename: str, components: t.Sequence[str]
) -> t.Optional[t.List[Source]]:
    """Return the node's own sources of a release with the components that they lack.

    The release itself, its updates and its security suite count, as far as the node uses them.

    Returns:
        None if the node has no source of the release at all.
    """
    ours = [source for source in sources if "main" in source.components]
    ours = [source for source in ours if _is_own(source)] or ours
    for name in (codename, "stable", "oldstable"):
        if any(source.suite == name for source in ours):
            break
    else:
        return None
    result = []
    for suite in (name, f"{name}-updates", f"{name}-security"):
        base = next((source for source in ours if source.suite == suite), None)
        enabled: t.Set[str] = set()
        for source in sources:
            enabled.update(source.components if source.suite == suite else ())
        missing = tuple(component for component in components if component not in enabled)
        if base is not None and missing:
            result.append(dataclasses.replace(base, components=missing))
    return result


def read_errors(text: str) -> str:
    """Return the errors in apt's output, all of the output if there are none."""
    errors = [line[3:] for line in text.split("\n") if line.startswith("E: ")]
    return "; ".join(dict.fromkeys(errors)) or text.strip()


def render(sources: t.Sequence[Source]) -> str:
    """Return a deb822 file."""
    return HEADER + "\n".join(map(stanza, sources))


def stanza(source: Source) -> str:
    """Return a stanza of a deb822 file."""
    text = f"Types: deb\nURIs: {source.uri}\nSuites: {source.suite}\n"
    text += f"Components: {' '.join(source.components)}\n" if source.components else ""
    text += f"Signed-By: {source.signed_by}\n" if source.signed_by else ""
    return text + "".join(f"{name}: {value}\n" for name, value in source.options)

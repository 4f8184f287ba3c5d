/* Copyright (c) 2026, the gpu.node authors. SPDX-License-Identifier: Apache-2.0 */
"use strict";
/* How a node looks: its row and its details. The other files follow in the same script. */
const report = JSON.parse(document.getElementById("data").textContent);
const sum = (list, of) => list.reduce((total, one) => total + of(one), 0);
const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** Make an element; texts become text nodes, so that no data is ever read as markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((one) => one !== null && one !== ""));
  return element;
}
const given = (text) => make("bdi", {}, String(text));
const mark = (kind, text) => make("span", { class: kind }, text);
const GIB = 2 ** 30;

/* What is shown of a node, and by what it is sorted and found. */
const looked = (node) => node.state === "looked";
const devices = (node) => node.gpus.flatMap((gpu) => (gpu.mig ? gpu.instances : [gpu]));
const models = (node) => {
  const found = new Map();
  for (const gpu of node.gpus) found.set(gpu.name, (found.get(gpu.name) || 0) + 1);
  return [...found];
};
const isUsed = (one) => one.users.length > 0;
const steps = (node) => sum(node.drift, (part) => part.steps.length || 1);

const FILTERS = {
  all: () => true,
  used: (node) => node.gpus.some((gpu) => gpu.in_use),
  absent: (node) => !looked(node),
  unhealthy: (node) => node.unhealthy.length > 0,
  drivers: ({ driver }) => driver.outdated || driver.vulnerable,
  drifted: (node) => node.drift.length > 0,
  repair: (node) => node.cases.some(({ open }) => open),
  reboot: (node) => node.reboot.length > 0,
  changing: (node) => Boolean(node.change.way),
};
const FAULTS = ["absent", "unhealthy", "repair", "drivers", "drifted"]; // the worst first
const FIRST_ORDER = { key: "faults", label: "Faults", of: (node) => FAULTS.reduce((found, key) => 2 * found + FILTERS[key](node), 0), down: true };
const COLUMNS = [
  { key: "name", label: "Node", of: (node) => node.name },
  { key: "gpus", label: "GPUs", of: (node) => models(node).map(([name]) => name).join() + String(node.gpus.length).padStart(4, "0") },
  { key: "grid", label: "Layout", of: (node) => sum(node.gpus, (gpu) => gpu.instances.length), down: true },
  { key: "use", label: "In use", of: (node) => devices(node).filter(isUsed).length, down: true },
  { key: "accepted", label: "Accepted", of: (node) => 1000 * inState(node, "failed") + inState(node, "untested"), down: true },
  { key: "driver", label: "Driver", of: (node) => node.driver.version },
  { key: "drift", label: "Drift", of: steps, down: true },
  { key: "health", label: "Health", of: (node) => (looked(node) ? 0 : 1000) + node.unhealthy.length, down: true },
  { key: "reboot", label: "Reboot", of: (node) => node.reboot.length, down: true },
];
const ORDERS = [FIRST_ORDER, ...COLUMNS];

/* Cells. */
function mini(gpu) {
  const used = gpu.instances.filter(isUsed).length;
  const text = gpu.mig ? `GPU ${gpu.index}: ${used} of ${counted(gpu.instances.length, "instance")} in use` : `GPU ${gpu.index}: ${use(gpu)}`;
  const box = make("i", { role: "img", "aria-label": gpu.fault ? `${text}, unhealthy` : text, title: text, class: gpu.mig ? "mig" : "" });
  for (const one of places(gpu)) {
    const part = make("s", { class: kindOf(one, gpu) });
    part.style.flexGrow = one.size;
    box.append(part);
  }
  return box;
}
const use = (gpu) => (gpu.in_use ? "in use" : gpu.known ? "free" : "not known whether in use");
function kindOf(one, gpu) {
  if (gpu.fault || one.fault) return "unfit";
  if (one.empty) return "none";
  return isUsed(one) || gpu.users.length ? "used" : gpu.known ? "idle" : "unknown";
}
/** Return the instances of a GPU with the slices between them; a GPU without MIG is one of them. */
function places(gpu) {
  if (!gpu.mig) return [{ ...gpu, start: 0, size: 1 }];
  const found = [];
  let at = 0;
  for (const one of gpu.instances) {
    for (; at < one.start; at++) found.push({ empty: true, start: at, size: 1, users: [] });
    found.push(one);
    at = one.start + one.size;
  }
  for (; at < gpu.slots; at++) found.push({ empty: true, start: at, size: 1, users: [] });
  return found;
}
const CELLS = {
  gpus: (node) => node.gpus.length
    ? [given(models(node).map(([name, number]) => `${number} × ${name.replace(/^NVIDIA /, "")}`).join(", "))]
    : [make("span", { class: "soft" }, node.pci_gpus ? `${node.pci_gpus} on the PCI bus` : looked(node) ? "no GPU" : "–")],
  grid: (node) => [node.gpus.length ? make("div", { class: "mini" }, ...node.gpus.map(mini)) : make("span", { class: "soft" }, "–")],
  use: (node) => {
    const all = devices(node);
    const least = node.gpus.every((gpu) => gpu.known) ? "" : "at least ";
    return all.length ? [`${least}${all.filter(isUsed).length} of ${all.length}`] : [make("span", { class: "soft" }, "–")];
  },
  accepted: (node) => [acceptanceCell(node)],
  driver: (node) => {
    const driver = node.driver;
    if (!driver.version) return [make("span", { class: "soft" }, looked(node) ? "none loaded" : "–")];
    const kind = driver.outdated ? "badmark" : driver.vulnerable ? "warnmark" : "";
    const why = [driver.outdated && "unsupported", security(driver)].filter(Boolean).join("; ");
    return [make("span", { class: kind, title: why }, given(driver.version), make("span", { class: "hidden" }, why && `, ${why}`))];
  },
  drift: (node) => [looked(node) ? (node.drift.length ? mark("warnmark", counted(steps(node), "step")) : mark("good", "none")) : make("span", { class: "soft" }, "–")],
  health: (node) => {
    if (!looked(node)) return [make("span", { class: "badmark", title: node.problem }, node.state)];
    return [node.unhealthy.length ? mark("badmark", counted(node.unhealthy.length, "problem")) : mark("good", "good")];
  },
  reboot: (node) => [node.reboot.length ? mark("warnmark", "pending") : make("span", { class: "soft" }, looked(node) ? "no" : "–")],
};

/** Return a node's name in pieces: where it is too long its domain goes first, then the middle of its host. */
function named(name) {
  const [host, domain] = name.split(/(?=\.)(.*)/s);
  const cut = Math.max(host.length - 10, 0);
  const pieces = { head: host.slice(0, cut), tail: host.slice(cut), domain: domain || "" };
  return make("bdi", { title: name }, ...Object.entries(pieces).map(([kind, text]) => (text ? make("span", { class: kind }, text) : null)));
}
function row(node, number) {
  const button = make("button", { type: "button", class: "open", "aria-expanded": "false", "aria-controls": `details-${number}` }, named(node.name));
  const cells = COLUMNS.slice(1).map(({ key, label }) => {
    const content = make("div", {}, ...CELLS[key](node));
    if (key === "gpus") content.title = content.textContent;
    return make("td", { role: "cell", "data-label": label }, content);
  });
  return make("tr", { role: "row", class: "node" }, make("th", { role: "rowheader", scope: "row" }, make("h2", {}, button)), ...cells);
}

/* Details. */
function details(node) {
  const sections = [
    section("Problem", node.problem && [make("p", { class: "problem" }, given(node.problem))]),
    section("Who uses what", usersOf(node)),
    section("Change", node.change.way && [list([node.change.problem, `Next step: ${node.change.way}`])]),
    section("Drift from what is declared", node.drift.map(part)),
    section("Warnings", node.warnings.length > 0 && [list(node.warnings)]),
    section("Health", node.unhealthy.length > 0 && [list(node.unhealthy), ways(node)]),
    section("Repairs", repairsOf(node)),
    section("Pending reboot", node.reboot.length > 0 && [list(node.reboot)]),
    section("Driver and system", driverOf(node)),
    section("Labels", labelsOf(node)),
  ];
  return [make("div", { class: "gpus" }, ...node.gpus.map(card)), make("div", { class: "cards" }, ...sections)];
}
const section = (title, content) => (content && content.length ? make("section", {}, make("h3", {}, title), ...content) : null);
const list = (texts) => make("ul", {}, ...texts.map((text) => make("li", {}, given(text))));

function card(gpu) {
  const memory = `${Math.round(gpu.memory / GIB)} GiB`;
  const state = gpu.fault ? `unhealthy: ${gpu.fault}` : gpu.mig ? `MIG, ${counted(gpu.instances.length, "instance")}` : use(gpu);
  const found = places(gpu);
  const grid = make("ol", { class: "grid", "aria-label": `GPU ${gpu.index}, memory slices` }, ...found.map((one) => slice(one, gpu)));
  const columns = `repeat(${Math.max(gpu.slots, 1)}, minmax(0, 1fr))`;
  grid.style.gridTemplateColumns = columns;
  const scale = make("div", { class: "scale", "aria-hidden": "true" }, ...Array.from({ length: gpu.mig ? gpu.slots : 0 }, (_, at) => make("span", {}, String(at))));
  scale.style.gridTemplateColumns = columns;
  return make("article", { class: "gpu" }, make("h3", {}, `GPU ${gpu.index} · `, given(gpu.name)), make("p", {}, `${memory} · `, given(state)), grid, scale, acceptanceOf(gpu));
}
function slice(one, gpu) {
  const kind = kindOf(one, gpu);
  const words = { used: "in use", idle: "free", unfit: "unhealthy", none: "no instance", unknown: "not known" }[kind];
  const at = gpu.mig && !one.empty ? `placement ${one.start}:${one.size}` : gpu.mig ? `slice ${one.start}` : "";
  const item = make("li", { class: kind, title: [one.profile, at, words].filter(Boolean).join(", ") });
  item.style.gridColumn = `span ${one.size}`;
  if (one.empty) item.append(make("span", { class: "hidden" }, words));
  else item.append(make("span", {}, ...(gpu.mig ? profile(one.profile) : ["whole GPU"])), make("span", { class: "state" }, words));
  return item;
}
/** Return the name of a profile, which may be broken before its memory: 1g, .10gb. */
const profile = (name) => name.split(/(?=\.)/).flatMap((piece) => [given(piece), make("wbr")]);
function usersOf(node) {
  const rows = [];
  const add = (where, users) => users.forEach((one) => rows.push([where, one]));
  for (const gpu of node.gpus) {
    add(`GPU ${gpu.index}`, gpu.users);
    for (const one of gpu.instances) add(`GPU ${gpu.index}, ${one.profile} at ${one.start}:${one.size}`, one.users);
  }
  add("not known", node.other_users);
  const unknown = node.users_unknown ? [make("p", { class: "warnmark" }, given(`Not known which pods have GPUs: ${node.users_unknown}`))] : [];
  if (!rows.length) return unknown;
  const lines = rows.map(([where, one]) => make("tr", {}, make("td", {}, given(where)), make("td", {}, `${one.kind} `, given(one.name),
    make("span", { class: "line soft" }, given([one.detail, one.device.split(" ")[0]].filter(Boolean).join(" · "))))));
  const head = make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Where"), make("th", { scope: "col" }, "Who")));
  return [...unknown, make("table", {}, head, make("tbody", {}, ...lines))];
}
function part(one) {
  const texts = [...one.steps, ...(one.error ? [`would be refused: ${one.error}`] : []), ...(one.later ? [`known once ${one.later}`] : []),
    ...one.blocked_by.map((who) => `in the way: ${who}`)];
  return make("div", {}, make("b", {}, given(one.part)), list(texts));
}
function ways(node) {
  const texts = node.faults.filter((one) => one.way_back).map((one) => `GPU ${one.index || one.gpu} comes back by: ${one.way_back}`);
  return texts.length ? list([...new Set(texts)]) : "";
}
const LAST_TIME = 253402300799; // in seconds since 1970, the end of the year 9999
const time = (seconds) => `${new Date(1000 * Math.max(0, Math.min(seconds, LAST_TIME))).toISOString().slice(0, 16).replace("T", " ")} UTC`;
function repairsOf(node) {
  const unknown = node.cases_unknown ? [make("p", { class: "warnmark" }, given(`Not known: ${node.cases_unknown}`))] : [];
  return [...unknown, ...node.cases.filter(({ open }) => open).map(repair)];
}
function repair(one) {
  const name = one.index === null ? `GPU ${one.gpu}` : `GPU ${one.index}`;
  const texts = [`since ${time(one.since)}, ${one.stage}`, ...one.reasons,
    ...one.attempts.map(({ action, at, result }) => `${action} at ${time(at)}: ${result || "not known what came of it"}`),
    ...(one.evidence ? [`evidence: ${one.evidence}`] : []), `Next step: ${one.next}`];
  const board = [one.serial && `serial ${one.serial}`, one.pci].filter(Boolean).join(", ");
  return make("div", {}, make("b", {}, given([`${name}: ${one.verdict}`, board].filter(Boolean).join(" · "))), list(texts));
}
function security(driver) {
  if (driver.unfixed.length) return `no fix in branch ${driver.branch} for bulletin ${driver.unfixed.join(", ")}`;
  return driver.vulnerable ? `bulletin ${driver.bulletin} of ${driver.bulletin_date}: fixed in ${driver.floor}` : "";
}
function driverOf(node) {
  const driver = node.driver;
  const pairs = [["Version", [driver.version, driver.type && `(${driver.type})`].filter(Boolean).join(" ")],
    ["Branch", [driver.branch, driver.kind].filter(Boolean).join(", ")],
    ["End of support", driver.end_of_support && `${driver.end_of_support}${driver.days === null ? "" : driver.days < 0 ? `, ${counted(-driver.days, "day")} ago` : `, in ${counted(driver.days, "day")}`}`],
    ["Security", security(driver)],
    ["Table of releases", driver.table && `of ${driver.table}`], ["System", node.system], ["Kernel", node.kernel]];
  return terms(pairs.filter(([, text]) => text));
}
const labelsOf = (node) => terms(Object.entries(node.labels));
const terms = (pairs) => (pairs.length ? [make("dl", { class: "labels" }, ...pairs.flatMap(([key, text]) => [make("dt", {}, given(key)), make("dd", {}, given(text))]))] : []);

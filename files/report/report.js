/* Copyright (c) 2026, the gpu.node authors. SPDX-License-Identifier: Apache-2.0 */
/* The page: which nodes are shown, in which order, and what people do with them. It is the last file. */
const byId = (id) => document.getElementById(id);
const MOST = 100; // nodes whose details are shown all at once: those of 1,000 would keep the page busy for 10 s
const FIRST = 80; // rows before the page is shown; the others follow, many at once, as each time the table is laid out anew

function tiles() {
  const t = report.totals;
  const rows = [
    ["all", t.nodes, "", "Nodes", counted(t.gpus, "GPU"), ""],
    ["used", t.gpus_in_use, ` of ${t.gpus}`, "GPUs in use",
      t.mig_instances ? `${t.mig_instances_in_use} of ${counted(t.mig_instances, "MIG instance")}` : "", ""],
    ["drifted", t.drifted, "", "Drifted", "not as declared", "warn"],
    ["unhealthy", t.unhealthy, "", "Unhealthy", "with faults", "bad"],
    ["drivers", t.drivers_to_update, "", "Drivers to update",
      t.drivers_to_update ? `${t.outdated_drivers} unsupported, ${t.vulnerable_drivers} below a fix` : "", "warn"],
    ["reboot", t.pending_reboots, "", "Pending reboots", "", "warn"],
    ["absent", t.unreachable + t.failed, "", "No data", t.unreachable + t.failed ? `${t.unreachable} unreachable, ${t.failed} failed` : "", "bad"],
  ];
  if (t.in_repair) rows.push(["repair", t.in_repair, "", "In repair", counted(t.open_cases, "GPU"), "bad"]);
  if (t.in_a_change) rows.push(["changing", t.in_a_change, "", "In a change", "begun and not ended", "warn"]);
  for (const [key, number, of, label, note, level] of rows) {
    const count = make("b", {}, String(number), of ? make("small", {}, of) : null);
    const kind = `tile ${number ? level : ""} ${FAULTS.includes(key) ? "fault" : ""}`;
    const tile = make("button", { type: "button", class: kind, "data-filter": key },
      count, make("span", {}, label), make("span", { class: "note", title: note }, note));
    tile.addEventListener("click", () => change({ filter: view.filter === key ? "all" : key }));
    byId("tiles").append(tile);
  }
}

/* Which rows are shown, and in which order. */
const DEFAULT = { filter: "all", find: "", key: FIRST_ORDER.key, down: true };
const view = { ...DEFAULT, shown: [] };
const collator = new Intl.Collator("en", { numeric: true });
const entries = report.nodes.map((node, number) => ({ node, number, row: null, body: null, details: null, opened: false, text: null }));
const texts = (value) => (typeof value === "string" ? [value] : typeof value === "object" && value ? Object.values(value).flatMap(texts) : []);
const labels = (node) => Object.entries(node.labels).map((pair) => pair.join("="));
const text = (entry) => (entry.text ??= [...texts(entry.node), ...labels(entry.node)].join("\n").toLowerCase());

/** Make an entry's rows, which have a table body of their own: so both move and hide together. */
function build(entry) {
  entry.row = row(entry.node, entry.number);
  entry.row.querySelector(".open").addEventListener("click", () => {
    toggle(entry, !entry.opened);
    address();
  });
  entry.body = make("tbody", { role: "rowgroup" }, entry.row);
  if (entry.opened) toggle(entry, true);
}
/** Open or close a node; what it shows is made when it is opened. */
function toggle(entry, wanted) {
  entry.opened = wanted;
  if (!entry.row) return;
  if (wanted && !entry.details) {
    entry.details = make("tr", { role: "row", class: "details", id: `details-${entry.number}` },
      make("td", { role: "cell", colspan: COLUMNS.length }, ...details(entry.node)));
    entry.body.append(entry.details);
  }
  if (entry.details) entry.details.hidden = !wanted;
  entry.row.querySelector(".open").setAttribute("aria-expanded", String(wanted));
}
function order() {
  const { of } = ORDERS.find(({ key }) => key === view.key);
  const sign = view.down ? -1 : 1;
  const compare = (a, b) => (typeof a === "number" ? a - b : collator.compare(a, b));
  const keyed = entries.map((entry) => [of(entry.node), entry]);
  keyed.sort(([a, one], [b, other]) => sign * compare(a, b) || collator.compare(one.node.name, other.node.name));
  return keyed.map(([, entry]) => entry);
}
let later;
/** Show the rows, the first of them at once. */
function show() {
  clearTimeout(later);
  const words = view.find.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (entry) => FILTERS[view.filter](entry.node) && words.every((word) => text(entry).includes(word));
  const wanted = order().filter(fits);
  view.shown = wanted;
  const table = byId("nodes");
  table.querySelectorAll("tbody").forEach((one) => one.remove());
  byId("count").textContent = wanted.length === entries.length ? counted(entries.length, "node") : `${wanted.length} of ${counted(entries.length, "node")}`;
  byId("nothing").hidden = wanted.length > 0;
  buttons();
  delete document.documentElement.dataset.shown;
  let at = 0;
  const add = (number) => {
    const some = wanted.slice(at, at + number);
    some.filter((entry) => !entry.row).forEach(build);
    table.append(...some.map((entry) => entry.body));
    at += some.length;
    if (at < wanted.length) later = setTimeout(() => add(12 * FIRST));
    else document.documentElement.dataset.shown = String(at);
  };
  add(FIRST);
  view.finish = () => {
    clearTimeout(later);
    if (at < wanted.length) add(wanted.length);
  };
}
function buttons() {
  const expand = byId("expand");
  const opened = expand.getAttribute("aria-expanded") === "true";
  expand.disabled = !opened && view.shown.length > MOST;
  expand.textContent = opened ? "Hide all details" : expand.disabled ? `Show details of up to ${MOST}` : "Show all details";
  byId("copy").disabled = !view.shown.length;
  byId("copy").textContent = "Copy as --limit";
}
/** Show another view, and show that it is. */
function change(values) {
  Object.assign(view, values);
  byId("heads").querySelectorAll("th").forEach((head) => {
    if (head.dataset.key === view.key) head.setAttribute("aria-sort", view.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
  byId("sort").value = `${view.key}-${view.down ? "down" : "up"}`;
  document.querySelectorAll(".tile").forEach((tile) => tile.setAttribute("aria-pressed", String(tile.dataset.filter === view.filter)));
  show();
  address();
}
/** Write the view into the page's address, which can be sent to somebody. */
function address() {
  const found = new URLSearchParams();
  if (view.filter !== DEFAULT.filter) found.set("filter", view.filter);
  if (view.find) found.set("find", view.find);
  if (view.key !== DEFAULT.key || !view.down) found.set("sort", byId("sort").value);
  for (const { node, opened } of entries) if (opened) found.append("open", node.name);
  const hash = found.size ? `#${found}` : "";
  try { history.replaceState(null, "", location.pathname + location.search + hash); } catch { /* where browsers count how often */ }
}
/** Show the view of the page's address. */
function visit() {
  if (location.hash && !location.hash.includes("=")) return; // the link to the table
  const found = new URLSearchParams(location.hash.slice(1));
  const [key, way] = (found.get("sort") || "").split("-");
  const names = new Set(found.getAll("open"));
  entries.forEach((entry) => toggle(entry, names.has(entry.node.name)));
  const find = byId("search").value = found.get("find") || "";
  const filter = Object.hasOwn(FILTERS, found.get("filter")) ? found.get("filter") : DEFAULT.filter;
  const sorted = ORDERS.some((one) => one.key === key) ? { key, down: way === "down" } : { key: DEFAULT.key, down: DEFAULT.down };
  change({ filter, find, ...sorted });
  if (!names.size) return;
  view.finish();
  view.shown.find(({ opened }) => opened)?.row.scrollIntoView();
}
/** Copy the names of the nodes that are shown, as a shell reads them. */
async function copy() {
  const names = view.shown.map(({ node }) => node.name).join();
  const limit = `--limit ${/^[\w.,-]+$/.test(names) ? names : `'${names.replaceAll("'", "'\\''")}'`}`;
  try {
    await navigator.clipboard.writeText(limit);
  } catch { // without TLS there is none
    const area = document.body.appendChild(make("textarea", { class: "hidden" }, limit));
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  byId("copy").textContent = `Copied ${counted(view.shown.length, "name")}`;
}

/** Show how often each model is repaired with each driver, where any was. */
function repairs() {
  byId("repairs").hidden = !report.repairs.length;
  for (const one of report.repairs) {
    const cells = [one.model || "not known", one.driver || "none loaded", one.gpus, one.cases, one.open, one.resets, one.reboots];
    byId("repaired").append(make("tr", {}, ...cells.map((cell) => make("td", {}, given(cell)))));
  }
}

const THEMES = ["auto", "light", "dark"];
const kept = { get: () => { try { return localStorage.getItem("theme"); } catch { return null; } }, set: (value) => { try { localStorage.setItem("theme", value); } catch { /* the page works without */ } } };
function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  byId("theme").textContent = `Theme: ${name}`;
  byId("theme").dataset.now = name;
}

function start() {
  byId("title").append(given(report.title));
  byId("made").append(make("time", { datetime: report.made }, `${report.made.slice(0, 16).replace("T", " ")} UTC`), ` · snapshot of the nodes`);
  tiles();
  repairs();
  for (const { key, label, down } of COLUMNS) {
    const button = make("button", { type: "button" }, label);
    button.addEventListener("click", () => change({ key, down: view.key === key ? !view.down : Boolean(down) }));
    byId("heads").append(make("th", { role: "columnheader", scope: "col", class: `c-${key}`, "data-key": key }, button));
  }
  for (const { key, label } of ORDERS) {
    byId("sort").append(...["down", "up"].map((way) => make("option", { value: `${key}-${way}` }, `${label} ${way === "down" ? "↓" : "↑"}`)));
  }
  byId("sort").addEventListener("change", ({ target }) => {
    const [key, way] = target.value.split("-");
    change({ key, down: way === "down" });
  });
  let typing;
  byId("search").addEventListener("input", ({ target }) => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ find: target.value }), 80);
  });
  byId("expand").addEventListener("click", ({ target }) => {
    const wanted = target.getAttribute("aria-expanded") !== "true";
    target.setAttribute("aria-expanded", String(wanted));
    view.finish();
    (wanted ? view.shown : entries).forEach((entry) => toggle(entry, wanted));
    buttons();
    address();
  });
  byId("copy").addEventListener("click", copy);
  byId("theme").addEventListener("click", ({ target }) => {
    const next = THEMES[(THEMES.indexOf(target.dataset.now) + 1) % THEMES.length];
    theme(next);
    kept.set(next);
  });
  addEventListener("beforeprint", () => view.finish());
  addEventListener("hashchange", visit);
  theme(THEMES.includes(kept.get()) ? kept.get() : "auto");
  visit();
}
start();

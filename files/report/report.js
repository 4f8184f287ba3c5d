/* Copyright (c) 2026, the gpu.node authors. SPDX-License-Identifier: Apache-2.0 */
"use strict";
(() => {
  const report = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const FIRST = 80; // rows before the page is shown; the others follow, many at once, as each time the table is laid out anew
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

  const COLUMNS = [
    { key: "name", label: "Node", of: (node) => node.name },
    { key: "gpus", label: "GPUs", of: (node) => models(node).map(([name]) => name).join() + String(node.gpus.length).padStart(4, "0") },
    { key: "grid", label: "Layout", of: (node) => sum(node.gpus, (gpu) => gpu.instances.length), down: true },
    { key: "use", label: "In use", of: (node) => devices(node).filter(isUsed).length, down: true },
    { key: "driver", label: "Driver", of: (node) => node.driver.version },
    { key: "drift", label: "Drift", of: steps, down: true },
    { key: "health", label: "Health", of: (node) => (looked(node) ? 0 : 1000) + node.unhealthy.length, down: true },
    { key: "reboot", label: "Reboot", of: (node) => node.reboot.length, down: true },
  ];
  const FILTERS = {
    all: () => true,
    used: (node) => node.gpus.some((gpu) => gpu.in_use),
    drifted: (node) => node.drift.length > 0,
    unhealthy: (node) => node.unhealthy.length > 0,
    drivers: (node) => node.driver.outdated || node.driver.vulnerable,
    reboot: (node) => node.reboot.length > 0,
    changing: (node) => Boolean(node.change.way),
    absent: (node) => !looked(node),
  };

  function tiles() {
    const t = report.totals;
    const rows = [
      ["all", t.nodes, "", "Nodes", counted(t.gpus, "GPU"), ""],
      ["used", t.gpus_in_use, ` of ${t.gpus}`, "GPUs in use",
        t.mig_instances ? `${t.mig_instances_in_use} of ${counted(t.mig_instances, "MIG instance")}` : "", ""],
      ["drifted", t.drifted, "", "Drifted", "from what is declared", "warn"],
      ["unhealthy", t.unhealthy, "", "Unhealthy", "with faults", "bad"],
      ["drivers", t.outdated_drivers, "", "Unsupported drivers",
        t.vulnerable_drivers ? `${t.vulnerable_drivers} below a security fix` : "", "warn"],
      ["reboot", t.pending_reboots, "", "Pending reboots", "", "warn"],
      ["absent", t.unreachable + t.failed, "", "Not looked at", t.unreachable + t.failed ? `${t.unreachable} unreachable, ${t.failed} failed` : "", "bad"],
    ];
    if (t.in_a_change) rows.push(["changing", t.in_a_change, "", "In a change", "begun and not ended", "warn"]);
    for (const [key, number, of, label, note, level] of rows) {
      const count = make("b", {}, String(number), of ? make("small", {}, of) : null);
      const tile = make("button", { type: "button", class: `tile ${number ? level : ""}`, "data-filter": key, "aria-pressed": String(key === "all") },
        count, make("span", {}, label), make("span", { class: "note" }, note));
      tile.addEventListener("click", () => choose(view.filter === key ? "all" : key));
      byId("tiles").append(tile);
    }
  }

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
      ? models(node).map(([name, number]) => make("span", { class: "line" }, `${number} × `, given(name)))
      : [make("span", { class: "soft" }, node.pci_gpus ? `${node.pci_gpus} on the PCI bus` : looked(node) ? "no GPU" : "–")],
    grid: (node) => [make("div", { class: "mini" }, ...node.gpus.map(mini))],
    use: (node) => {
      const all = devices(node);
      const least = node.gpus.every((gpu) => gpu.known) ? "" : "at least ";
      return all.length ? [`${least}${all.filter(isUsed).length} of ${all.length}`] : [make("span", { class: "soft" }, "–")];
    },
    driver: (node) => {
      const driver = node.driver;
      if (!driver.version) return [make("span", { class: "soft" }, looked(node) ? "none loaded" : "–")];
      const kind = driver.outdated ? "badmark" : driver.vulnerable ? "warnmark" : "";
      const until = driver.outdated ? "unsupported" : driver.end_of_support ? `until ${driver.end_of_support}` : "";
      return [make("span", { class: kind }, given(driver.version)), make("span", { class: "line soft" }, until),
        driver.vulnerable ? make("span", { class: "line soft" }, `fixed in ${driver.floor}`) : null];
    },
    drift: (node) => [looked(node) ? (node.drift.length ? mark("warnmark", counted(steps(node), "step")) : mark("good", "none")) : make("span", { class: "soft" }, "–")],
    health: (node) => {
      if (!looked(node)) return [mark("badmark", node.state)];
      return [node.unhealthy.length ? mark("badmark", counted(node.unhealthy.length, "problem")) : mark("good", "good")];
    },
    reboot: (node) => [node.reboot.length ? mark("warnmark", "pending") : make("span", { class: "soft" }, looked(node) ? "no" : "–")],
  };

  function row(entry, number) {
    const { node } = entry;
    const button = make("button", { type: "button", class: "open", "aria-expanded": "false", "aria-controls": `details-${number}` }, given(node.name));
    button.addEventListener("click", () => open(entry, !entry.opened));
    const cells = COLUMNS.slice(1).map(({ key, label }) => make("td", { role: "cell", "data-label": label }, make("div", {}, ...CELLS[key](node))));
    return make("tr", { role: "row", class: "node" }, make("th", { role: "rowheader", scope: "row" }, button), ...cells);
  }

  /* Details, made when they are opened. */
  function open(entry, wanted) {
    if (wanted && !entry.details) {
      entry.details = make("tr", { role: "row", class: "details", id: `details-${entry.number}` },
        make("td", { role: "cell", colspan: COLUMNS.length }, ...details(entry.node)));
      entry.body.append(entry.details);
    }
    entry.opened = wanted;
    if (entry.details) entry.details.hidden = !wanted;
    entry.row.querySelector(".open").setAttribute("aria-expanded", String(wanted));
  }
  function details(node) {
    const sections = [
      section("Problem", node.problem && [make("p", { class: "problem" }, given(node.problem))]),
      section("Who uses what", usersOf(node)),
      section("Change", node.change.way && [list([node.change.problem, `Next step: ${node.change.way}`])]),
      section("Drift from what is declared", node.drift.map(part)),
      section("Health", node.unhealthy.length > 0 && [list(node.unhealthy), ways(node)]),
      section("Pending reboot", node.reboot.length > 0 && [list(node.reboot)]),
      section("Driver and system", driverOf(node)),
      section("Labels", labelsOf(node)),
    ];
    return [make("div", { class: "gpus" }, ...node.gpus.map(card)), make("div", { class: "cards" }, ...sections)];
  }
  const section = (title, content) => (content && content.length ? make("section", {}, make("h2", {}, title), ...content) : null);
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
    return make("article", { class: "gpu" }, make("h3", {}, `GPU ${gpu.index} · `, given(gpu.name)), make("p", {}, `${memory} · `, given(state)), grid, scale);
  }
  function slice(one, gpu) {
    const kind = kindOf(one, gpu);
    const words = { used: "in use", idle: "free", unfit: "unhealthy", none: "no instance", unknown: "not known" }[kind];
    const at = gpu.mig && !one.empty ? `placement ${one.start}:${one.size}` : gpu.mig ? `slice ${one.start}` : "";
    const item = make("li", { class: kind, title: [one.profile, at, words].filter(Boolean).join(", ") });
    item.style.gridColumn = `span ${one.size}`;
    if (one.empty) item.append(make("span", { class: "hidden" }, words));
    else item.append(make("span", {}, ...(gpu.mig ? profile(one.profile) : ["whole GPU"])), make("span", {}, kind === "used" ? "used" : words));
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
  function driverOf(node) {
    const driver = node.driver;
    const pairs = [["Version", [driver.version, driver.type && `(${driver.type})`].filter(Boolean).join(" ")],
      ["Branch", [driver.branch, driver.kind].filter(Boolean).join(", ")],
      ["End of support", driver.end_of_support && `${driver.end_of_support}${driver.days === null ? "" : driver.days < 0 ? `, ${counted(-driver.days, "day")} ago` : `, in ${counted(driver.days, "day")}`}`],
      ["Security", driver.vulnerable && `bulletin ${driver.bulletin} of ${driver.bulletin_date}: fixed in ${driver.floor}`],
      ["Table of releases", driver.table && `of ${driver.table}`], ["System", node.system], ["Kernel", node.kernel]];
    return terms(pairs.filter(([, text]) => text));
  }
  const labelsOf = (node) => terms(Object.entries(node.labels));
  const terms = (pairs) => (pairs.length ? [make("dl", { class: "labels" }, ...pairs.flatMap(([key, text]) => [make("dt", {}, given(key)), make("dd", {}, given(text))]))] : []);

  /* Which rows are shown, and in which order. */
  const view = { filter: "all", words: [], key: "name", down: false };
  const collator = new Intl.Collator("en", { numeric: true });
  const entries = report.nodes.map((node, number) => ({ node, number, row: null, body: null, details: null, opened: false, text: null }));
  const texts = (value) => (typeof value === "string" ? [value] : typeof value === "object" && value ? Object.values(value).flatMap(texts) : []);
  const labels = (node) => Object.entries(node.labels).map((pair) => pair.join("="));
  const text = (entry) => (entry.text ??= [...texts(entry.node), ...labels(entry.node)].join("\n").toLowerCase());
  const fits = (entry) => FILTERS[view.filter](entry.node) && view.words.every((word) => text(entry).includes(word));

  /** Make an entry's rows, which have a table body of their own: so both move and hide together. */
  function build(entry) {
    entry.row = row(entry, entry.number);
    entry.body = make("tbody", { role: "rowgroup" }, entry.row);
  }
  function order() {
    const { of } = COLUMNS.find(({ key }) => key === view.key);
    const sign = view.down ? -1 : 1;
    const compare = (a, b) => (typeof a === "number" ? a - b : collator.compare(a, b));
    const keyed = entries.map((entry) => [of(entry.node), entry]);
    keyed.sort(([a, one], [b, other]) => sign * compare(a, b) || one.number - other.number);
    return keyed.map(([, entry]) => entry);
  }
  let later;
  /** Show the rows, the first of them at once. */
  function show() {
    clearTimeout(later);
    const wanted = order().filter(fits);
    const table = byId("nodes");
    table.querySelectorAll("tbody").forEach((one) => one.remove());
    byId("count").textContent = wanted.length === entries.length ? counted(entries.length, "node") : `${wanted.length} of ${counted(entries.length, "node")}`;
    byId("nothing").hidden = wanted.length > 0;
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
  function sort(key) {
    const column = COLUMNS.find((one) => one.key === key);
    view.down = view.key === key ? !view.down : Boolean(column.down);
    view.key = key;
    headings();
    show();
  }
  function headings() {
    byId("heads").querySelectorAll("th").forEach((head) => {
      if (head.dataset.key === view.key) head.setAttribute("aria-sort", view.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    byId("sort").value = `${view.key} ${view.down ? "down" : "up"}`;
  }
  function choose(filter) {
    view.filter = filter;
    document.querySelectorAll(".tile").forEach((tile) => tile.setAttribute("aria-pressed", String(tile.dataset.filter === filter)));
    show();
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
    byId("made").append(make("time", { datetime: report.made }, `${report.made.slice(0, 16).replace("T", " ")} UTC`), ` · as the nodes were then`);
    tiles();
    for (const { key, label } of COLUMNS) {
      const button = make("button", { type: "button" }, label);
      button.addEventListener("click", () => sort(key));
      byId("heads").append(make("th", { role: "columnheader", scope: "col", class: `c-${key}`, "data-key": key }, button));
      byId("sort").append(make("option", { value: `${key} up` }, `${label} ↑`), make("option", { value: `${key} down` }, `${label} ↓`));
    }
    byId("sort").addEventListener("change", ({ target }) => {
      const [key, way] = target.value.split(" ");
      Object.assign(view, { key, down: way === "down" });
      headings();
      show();
    });
    let typing;
    byId("search").addEventListener("input", ({ target }) => {
      clearTimeout(typing);
      typing = setTimeout(() => {
        view.words = target.value.toLowerCase().split(/\s+/).filter(Boolean);
        show();
      }, 80);
    });
    byId("expand").addEventListener("click", ({ target }) => {
      const wanted = target.getAttribute("aria-expanded") !== "true";
      target.setAttribute("aria-expanded", String(wanted));
      target.textContent = wanted ? "Hide all details" : "Show all details";
      view.finish();
      entries.filter((entry) => entry.row).forEach((entry) => open(entry, wanted && fits(entry)));
    });
    byId("theme").addEventListener("click", ({ target }) => {
      const next = THEMES[(THEMES.indexOf(target.dataset.now) + 1) % THEMES.length];
      theme(next);
      kept.set(next);
    });
    addEventListener("beforeprint", () => view.finish());
    theme(THEMES.includes(kept.get()) ? kept.get() : "auto");
    headings();
    show();
  }
  start();
})();

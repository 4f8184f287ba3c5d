/* Copyright (c) 2026, the gpu.node authors. SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs are accepted, and their figures beside the fleet's medians. It follows nodes.js. */
const SVG = "http://www.w3.org/2000/svg";
const NO_MEDIAN = "a median needs eight GPUs of the same product, board, and driver, of which no node has half";
const SPAN = 3; // how many times as far as its floor from the median a plot goes

const isTested = ({ acceptance }) => acceptance.at > 0;
const inState = (node, state) => node.gpus.filter(({ acceptance }) => acceptance.state === state).length;

function acceptanceCell(node) {
  const [failed, accepted] = [inState(node, "failed"), inState(node, "accepted")];
  if (failed) return mark("badmark", `${failed} failed`);
  if (!node.gpus.some(isTested)) return make("span", { class: "soft" }, node.gpus.length ? "not tested" : "–");
  return mark(accepted === node.gpus.length ? "good" : "warnmark", `${accepted} of ${node.gpus.length}`);
}

/** Return what the last test of a GPU says, with its figures. */
function acceptanceOf(gpu) {
  const { state, reason, verdict, level, at, faults, figures } = gpu.acceptance;
  const test = `at level ${level}, ${time(at)}`;
  const text = {
    accepted: () => [mark("good", `accepted ${test}`)],
    failed: () => [mark("badmark", `failed ${test}`)],
    untested: () => (at ? [mark("warnmark", "not accepted: "), given(`${reason} (${verdict} ${test})`)] : ["not tested"]),
  }[state]();
  const rows = Object.entries(figures).map(([name, value]) => figureOf(name, value, comparisons.get(comparisonKey(gpu, name))));
  return make("div", { class: "acceptance" }, make("p", {}, ...text), faults.length ? list(faults) : null,
    rows.length ? make("ul", { class: "figures" }, ...rows) : null);
}

const comparisonKey = (gpu, figure) => JSON.stringify([gpu.name, gpu.acceptance.board, gpu.acceptance.driver, figure]);
const comparisons = new Map(report.acceptance.map((row) => [JSON.stringify([row.model, row.board, row.driver, row.figure]), row]));

function figureOf(name, value, comparison) {
  const digits = (number) => String(Number(number.toPrecision(4)));
  const text = [make("span", {}, name), make("b", {}, digits(value))];
  if (!comparison) return make("li", {}, ...text, make("small", { title: NO_MEDIAN }, "no median"));
  const { median, floor, gpus } = comparison;
  const away = 100 * (value / median - 1);
  const share = `${away < 0 ? "−" : "+"}${Math.abs(away).toFixed(1)} %`;
  const label = `${digits(value)} is ${share} of the median ${digits(median)} of ${gpus} GPUs; slow below ${digits(floor)}`;
  const shown = value < floor ? mark("badmark", share) : share;
  return make("li", { title: label }, ...text, make("small", {}, shown), plot(value, comparison, `${name}: ${label}`));
}

/** Draw a value on a line with the fleet's median in its middle, and the range in which a GPU is not slow or as much faster. */
function plot(value, { median, floor }, label) {
  const half = 50 / SPAN;
  const away = (value - median) / (median - floor);
  const at = 50 + half * Math.max(-SPAN, Math.min(SPAN, away));
  const percent = (number) => `${number}%`;
  return shape("svg", { role: "img", "aria-label": label },
    shape("line", { x1: 0, x2: "100%", y1: 7, y2: 7 }),
    shape("rect", { x: percent(50 - half), width: percent(2 * half), y: 4, height: 6 }),
    shape("line", { class: "median", x1: "50%", x2: "50%", y1: 1, y2: 13 }),
    value < floor ? shape("rect", { class: "slow", x: percent(at), width: 4, y: 1, height: 12 }) : shape("circle", { cx: percent(at), cy: 7, r: 4 }));
}
function shape(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

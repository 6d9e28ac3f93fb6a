// The charts under the explorer; each is drawn anew for the width it has.

import { byId, element, percent } from "./dom.js";
import { bands, frame, key, svg, text, verticalAxis } from "./svg.js";
import { ticks } from "./view.js";

const PARTY_COLORS = 8;

export function drawCharts(header) {
  if (header.scree) fill("scree-chart", (box) => drawScree(box, header.scree));
  if (header.errors) fill("errors-chart", (box) => drawErrors(box, header.errors));
  if (header.influence) fill("influence-chart", (box) => drawInfluence(box, header.influence));
  if (header.own) {
    fill("own-charts", (box) => drawOwn(box, header.own.correlation, { what: "correlation" }));
    fill("association-charts", (box) => drawOwn(box, header.own["distance correlation"], { what: "distance correlation", least: 0 }));
  }
}

function fill(name, draw) {
  const box = byId(name);
  box.closest("section").hidden = false;
  box.replaceChildren();
  draw(box);
}

function drawScree(box, { found, low, high }) {
  const sums = low.map((_, k) => low.slice(0, k + 1).reduce((a, b) => a + b));
  const most = Math.min(1.02, Math.max(...high, ...sums) * 1.05);
  box.append(key([["found", "variance of the component"], ["sum", "all up to here, certified at least"]]));
  const chart = frame(box, { height: 340, label: "share of the variance by component, with certified bounds" });
  const y = (value) => chart.bottom - (Math.min(value, most) / most) * (chart.bottom - chart.top);
  verticalAxis(chart, ticks(0, most, 6), y, (value) => percent(value));
  const { center, width } = bands(chart, found.length);
  found.forEach((value, k) => {
    const x = center(k);
    const tip = `component ${k + 1}: ${percent(value, 2)}\ncertified ${percent(low[k], 2)} to ${percent(high[k], 2)}`;
    chart.drawing.append(svg(
      "g", { class: "bar", "data-tip": tip },
      svg("rect", { class: "found", x: x - width / 2, y: y(value), width, height: chart.bottom - y(value) }),
      svg("path", { class: "whisker", d: whisker(x, y(low[k]), y(high[k])) }),
    ));
  });
  const line = sums.map((value, k) => `${center(k)},${y(value)}`).join(" ");
  chart.drawing.append(svg("polyline", { class: "sum-line", points: line }));
  sums.forEach((value, k) => chart.drawing.append(svg("circle", {
    class: "sum", cx: center(k), cy: y(value), r: 4,
    "data-tip": `components 1 to ${k + 1}\nat least ${percent(value, 1)} of the variance`,
  })));
}

const whisker = (x, low, high) => `M${x - 4},${low}h8M${x},${low}V${high}M${x - 4},${high}h8`;

// A dot for the sine that is estimated, a whisker up to the one that is proved, on a log scale.
function drawErrors(box, { estimated, proved }) {
  const exponent = (sine) => Math.log10(Math.max(sine, 1e-8)); // below it nobody needs more digits
  const least = Math.min(-1, ...estimated.map((sine) => Math.floor(exponent(sine))));
  const chart = frame(box, { height: 240, left: 64, label: `error of each of ${estimated.length} components: estimated, and proved` });
  const y = (sine) => chart.top + (exponent(sine) / least) * (chart.bottom - chart.top);
  const decades = Array.from({ length: 1 - least }, (_, d) => 10 ** -d);
  verticalAxis(chart, decades, y, (sine) => (sine === 1 ? "1" : `1e${Math.round(exponent(sine))}`));
  const { center } = bands(chart, estimated.length);
  estimated.forEach((sine, k) => {
    const [x, top] = [center(k), y(proved[k])];
    const tip = `component ${k + 1}: sine ${sine.toPrecision(1)} estimated\nat most ${proved[k].toPrecision(1)} proved`;
    chart.drawing.append(svg(
      "g", { "data-tip": tip },
      svg("path", { class: "whisker", d: `M${x},${y(sine)}V${top}M${x - 7},${top}h14` }),
      svg("circle", { class: "found", cx: x, cy: y(sine), r: 4.5 }),
    ));
  });
}

function drawInfluence(box, { parties, shares }) {
  const kind = (j) => `party-${(j % PARTY_COLORS) + 1}`;
  box.append(key(parties.map((party, j) => [kind(j), party])));
  const chart = frame(box, { height: 300, label: "share of influence of each party on each component" });
  const y = (value) => chart.bottom - value * (chart.bottom - chart.top);
  verticalAxis(chart, [0, 0.25, 0.5, 0.75, 1], y, (value) => percent(value));
  const { center, width } = bands(chart, shares[0].length);
  shares[0].forEach((_, d) => {
    let below = 0;
    parties.forEach((party, j) => {
      const share = shares[j][d];
      chart.drawing.append(svg("rect", {
        class: `bar ${kind(j)}`, x: center(d) - width / 2, width, y: y(below + share),
        height: Math.max(0, y(below) - y(below + share) - 1), "data-tip": `${party}\n${percent(share)} of component ${d + 1}`,
      }));
      below += share;
    });
  });
}

function drawOwn(box, { top, chance }, about) {
  top.forEach((columns, d) => {
    const place = element("figure", { class: "own" }, element("figcaption", {}, `component ${d + 1}`));
    box.append(place);
    drawColumns(place, columns, { chance, ...about });
  });
}

// Bars from the middle; names stand on the other side.
function drawColumns(box, columns, { what, chance, least = -1 }) {
  const row = 22, height = columns.length * row + 30;
  const chart = frame(box, { height, left: 0, right: 0, top: 0, bottom: 30, label: `${what} of columns with this component` });
  const half = chart.width / 2;
  const x = (value) => half + value * (half - 4);
  const line = (kind, value) => svg("line", { class: kind, x1: x(value), x2: x(value), y1: 0, y2: chart.bottom });
  for (const value of [-1, 0, 1].filter((value) => value >= least)) {
    const anchor = { "-1": "start", 0: "middle", 1: "end" }[value];
    chart.drawing.append(line("grid", value), text(value, x(value), chart.bottom + 18, { class: "tick", "text-anchor": anchor }));
  }
  if (chance !== undefined) for (const value of least < 0 ? [-chance, chance] : [chance]) chart.drawing.append(line("chance", value));
  columns.forEach(([name, value], k) => {
    const positive = value >= 0;
    const bar = svg("rect", {
      class: `bar ${positive ? "positive" : "negative"}`, x: Math.min(x(0), x(value)), y: k * row + 3,
      width: Math.max(1, Math.abs(x(value) - x(0))), height: row - 6,
    });
    const label = text(shortened(name, half), positive ? half - 7 : half + 7, k * row + 15, {
      class: "label name", "text-anchor": positive ? "end" : "start",
    });
    chart.drawing.append(svg("g", { "data-tip": `${name}\n${what} ${value.toFixed(2)}` }, bar, label));
  });
}

function shortened(name, pixels) {
  const most = Math.max(6, Math.floor((pixels - 10) / 7.2));
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

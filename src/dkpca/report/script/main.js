// Controls of the page, and what each does.

import { drawCharts } from "./charts.js";
import { asCss } from "./colors.js";
import { COMPLETED, NEW, NEW_COMPLETED, OUTSIDE, readData } from "./data.js";
import { drawDetails } from "./details.js";
import { byId, download, element, fileName, followTips, hideTip, setPressed, swatch } from "./dom.js";
import { Explorer } from "./explorer.js";
import { drawLegend } from "./legend.js";
import { nearest } from "./neighbors.js";
import { startPointer } from "./pointer.js";
import { startSearch } from "./search.js";
import { drawSelection, insideLasso } from "./selection.js";
import { cssColor, onPrint, startTheme } from "./theme.js";

const NEIGHBORS = 10;
const GROUPS = ["labels", "samples", "components"];

const { header, samples } = await readData();
const explorer = new Explorer(header, samples);

function repaint() {
  explorer.paint();
  drawLegend(explorer.column, explorer.shading, explorer.hidden, toggleGroup);
  drawSelection(explorer.selected, { samples, shading: explorer.shading, title: header.title, clear: () => select([]) });
}

function toggleGroup(position) {
  if (!explorer.hidden.delete(position)) explorer.hidden.add(position);
  repaint();
}

function select(chosen) {
  explorer.selected = new Set(chosen);
  repaint();
}

function focus(sample) {
  explorer.focused = sample;
  explorer.neighbors = sample === null ? [] : nearest(samples, sample, NEIGHBORS);
  drawDetails(samples, sample, explorer.neighbors, focus);
  if (sample !== null) explorer.reveal(sample);
  explorer.draw();
}

function startColors() {
  const choice = byId("color");
  for (const group of GROUPS) {
    const members = samples.columns.filter((column) => column.group === group);
    if (!members.length) continue;
    choice.append(element("optgroup", { label: group }, ...members.map((column) => element(
      "option", { value: samples.columns.indexOf(column) }, column.name,
    ))));
  }
  choice.append(element("option", { value: -1 }, "nothing"));
  const first = samples.columns.findIndex((column) => column.group !== "components");
  choice.value = first;
  explorer.column = samples.columns[first] ?? null;
  choice.addEventListener("change", () => {
    explorer.color(samples.columns[choice.value] ?? null);
    repaint();
  });
}

function startAxes() {
  const names = ["axis-x", "axis-y", "axis-z"];
  names.forEach((name, k) => {
    const choice = byId(name);
    if (name === "axis-z") choice.append(element("option", { value: -1 }, "none"));
    samples.scores.forEach((_, d) => choice.append(element("option", { value: d }, `component ${d + 1}`)));
    choice.value = explorer.axes[k];
    choice.addEventListener("change", () => explorer.setAxes(names.map((axis) => Number(byId(axis).value))));
  });
}

function startSwitches() {
  const switches = [];
  const add = (name, mark, words, changed, on) => {
    const box = element("input", { type: "checkbox", id: name, checked: on });
    box.addEventListener("change", () => changed(box.checked));
    switches.push(element("label", {}, box, mark, words));
  };
  const showKind = (kind) => (shown) => {
    explorer.hiddenKinds[shown ? "delete" : "add"](kind);
    repaint();
  };
  const ink = "var(--ink)";
  if (samples.kinds.includes(COMPLETED)) {
    add("show-completed", swatch(ink, "hollow"), "samples that not all parties have", showKind(COMPLETED), true);
  }
  if (samples.kinds.includes(NEW)) add("show-new", swatch(ink, "diamond"), "new samples", showKind(NEW), true);
  if (samples.kinds.includes(NEW_COMPLETED)) {
    const words = "new samples that not all parties have";
    add("show-new-completed", swatch(ink, "hollow diamond"), words, showKind(NEW_COMPLETED), true);
  }
  if (samples.kinds.includes(OUTSIDE)) {
    add("show-outside", swatch(ink, "cross"), "new samples outside the range of the fit", showKind(OUTSIDE), true);
  }
  byId("switches").replaceChildren(...switches);
}

function startTools() {
  const modes = { move: byId("mode-move"), lasso: byId("mode-lasso") };
  let mode = "move";
  for (const [name, button] of Object.entries(modes)) {
    button.addEventListener("click", () => {
      mode = name;
      Object.entries(modes).forEach(([other, its]) => setPressed(its, other === mode));
      byId("front").classList.toggle("lasso", mode === "lasso");
    });
  }
  byId("zoom-in").addEventListener("click", () => explorer.zoom(1.4));
  byId("zoom-out").addEventListener("click", () => explorer.zoom(1 / 1.4));
  byId("reset").addEventListener("click", () => explorer.reset());
  byId("picture").addEventListener("click", savePicture);
  startPointer(byId("front"), {
    lassoing: () => mode === "lasso",
    lassoDrawn: (path) => {
      explorer.lasso = path;
      explorer.draw();
    },
    lassoClosed: (path) => select(insideLasso(path, explorer.places, (sample) => explorer.isVisible(sample))),
    click: (x, y) => {
      const sample = explorer.at(x, y);
      focus(sample < 0 ? null : sample);
    },
    hover: (x, y, event) => explorer.hover(x, y, event),
    drag: (dx, dy) => explorer.drag(dx, dy),
    zoom: (factor, x, y) => explorer.zoom(factor, x, y),
    leave: hideTip,
  });
}

function savePicture() {
  const [grid, points] = [byId("grid"), byId("points")];
  const ratio = grid.width / grid.clientWidth;
  const groups = explorer.shading.groups;
  const picture = element("canvas", { width: grid.width, height: grid.height + (groups.length ? 34 * ratio : 0) });
  const context = picture.getContext("2d");
  context.fillStyle = cssColor("--page");
  context.fillRect(0, 0, picture.width, picture.height);
  context.drawImage(grid, 0, 0);
  for (const canvas of [points, byId("front")]) context.drawImage(canvas, canvas.offsetLeft * ratio, canvas.offsetTop * ratio);
  context.scale(ratio, ratio);
  context.font = "13px system-ui, sans-serif";
  let x = 56;
  for (const group of groups) {
    context.fillStyle = asCss(group.color);
    context.fillRect(x, grid.clientHeight + 8, 11, 11);
    context.fillStyle = cssColor("--ink");
    context.fillText(group.name, x + 17, grid.clientHeight + 18);
    x += 38 + context.measureText(group.name).width;
  }
  picture.toBlob((blob) => download(fileName(header.title, ".png"), blob));
}

function redrawAll() {
  repaint();
  drawCharts(header);
}

startColors();
startAxes();
startSwitches();
startTools();
startSearch(samples, focus);
followTips();
startTheme(redrawAll);
new ResizeObserver(() => {
  explorer.draw();
  drawCharts(header);
}).observe(byId("plot"));
onPrint(() => {
  explorer.printing = true;
  redrawAll();
  explorer.drawNow();
}, () => {
  explorer.printing = false;
  redrawAll();
});
if (explorer.renderer.slow) byId("hint").append(" This browser has no WebGL: drawing is slower.");
document.body.dataset.ready = "yes";

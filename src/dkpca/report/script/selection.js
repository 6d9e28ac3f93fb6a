// Samples inside the lasso, what they are, and their ids as a file.

import { asCss } from "./colors.js";
import { valueOf } from "./data.js";
import { byId, count, download, element, fileName, percent, swatch } from "./dom.js";

export function insideLasso(path, places, visible) {
  const found = [];
  for (let i = 0; i < places.length / 2; i++) {
    if (visible(i) && isInside(path, places[2 * i], places[2 * i + 1])) found.push(i);
  }
  return found;
}

// A ray to the right crosses the border an odd number of times from inside.
function isInside(path, x, y) {
  let inside = false;
  for (let i = 0, j = path.length - 1; i < path.length; j = i++) {
    const [[xi, yi], [xj, yj]] = [path[i], path[j]];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}

export function drawSelection(selected, { samples, shading, title, clear }) {
  const box = byId("selection");
  box.hidden = selected.size === 0;
  if (box.hidden) return;
  const save = () => {
    const text = asCsv(samples, [...selected].sort((a, b) => a - b));
    download(fileName(title, "-selected.csv"), new Blob([text], { type: "text/csv" }));
  };
  box.replaceChildren(
    element("h3", {}, `${count(selected.size)} selected`),
    element(
      "p", { class: "buttons" },
      element("button", { type: "button", id: "save-ids", onclick: save }, "Save ids (CSV)"),
      element("button", { type: "button", id: "clear-selection", onclick: clear }, "Clear"),
    ),
    ...composition(selected, shading),
  );
}

function composition(selected, shading) {
  const counts = shading.groups.map(() => 0);
  for (const sample of selected) if (counts.length) counts[shading.groupOf(sample)]++;
  return shading.groups.map((group, k) => [group, counts[k]]).filter(([, number]) => number).map(([group, number]) =>
    element(
      "div", { class: "group" }, swatch(asCss(group.color)), element("span", { class: "name" }, group.name),
      element("span", { class: "count" }, `${count(number)} (${percent(number / selected.size)})`),
    ));
}

export function asCsv(samples, chosen) {
  const columns = samples.columns.filter((column) => column.group !== "components");
  const lines = chosen.map((sample) => [samples.names[sample], ...columns.map((column) => valueOf(column, sample))]);
  return [["sample", ...columns.map((column) => column.name)], ...lines]
    .map((cells) => cells.map(quoted).join(",") + "\n").join("");
}

function quoted(value) {
  const text = Number.isNaN(value) ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

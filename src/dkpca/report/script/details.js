// One sample: what is known of it, and its neighbors.

import { COMPLETED, NEW, NEW_COMPLETED, OUTSIDE, valueOf } from "./data.js";
import { byId, element, short } from "./dom.js";

const words = (value) => (typeof value === "number" ? short(value) : value);

export function about(samples, sample, column) {
  const lines = [samples.names[sample]];
  if (column) lines.push(`${column.name}: ${words(valueOf(column, sample))}`);
  if (samples.kinds[sample] === COMPLETED) lines.push("not at all parties: completed");
  if (samples.kinds[sample] === NEW) lines.push("new sample");
  if (samples.kinds[sample] === NEW_COMPLETED) lines.push("new sample, not at all parties: completed");
  if (samples.kinds[sample] === OUTSIDE) lines.push("new sample, outside the range of the fit");
  return lines;
}

export function drawDetails(samples, sample, neighbors, focus) {
  const box = byId("details");
  box.hidden = sample === null;
  byId("hint").hidden = !box.hidden;
  if (box.hidden) return;
  const rows = samples.columns.filter((column) => column.group !== "components")
    .map((column) => element("tr", {}, element("th", {}, column.name), element("td", {}, words(valueOf(column, sample)))));
  const items = neighbors.map(({ sample: other, distance }) => element(
    "li", {}, element("button", { type: "button", onclick: () => focus(other) }, samples.names[other]),
    element("span", { class: "count" }, short(distance)),
  ));
  box.replaceChildren(
    element(
      "div", { class: "heading" }, element("h3", { id: "focused" }, samples.names[sample]),
      element("button", { type: "button", id: "unfocus", "aria-label": "Close", onclick: () => focus(null) }, "×"),
    ),
    ...about(samples, sample, null).slice(1).map((line) => element("p", { class: "hint" }, line)),
    element("table", {}, element("tbody", {}, ...rows)),
    element("h4", {}, "Nearest samples, by all components"),
    element("ol", { id: "neighbors" }, ...items),
  );
}

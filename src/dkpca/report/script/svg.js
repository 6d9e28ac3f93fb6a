// Parts of a chart: elements, a frame with a vertical axis, a legend.

import { element } from "./dom.js";

const SPACE = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export const text = (words, x, y, attributes = {}) => svg("text", { x, y, ...attributes }, words);

export function frame(box, { height, left = 52, bottom = 44, top = 10, right = 10, label }) {
  const width = Math.max(box.clientWidth, left + right + 60); // before the page is laid out a box has no width
  const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  box.append(drawing);
  return { drawing, left, top, right: width - right, bottom: height - bottom, width };
}

export function verticalAxis(chart, values, y, words) {
  for (const value of values) {
    chart.drawing.append(
      svg("line", { class: "grid", x1: chart.left, x2: chart.right, y1: y(value), y2: y(value) }),
      text(words(value), chart.left - 8, y(value) + 4, { class: "tick", "text-anchor": "end" }),
    );
  }
}

// One band per component, numbered underneath.
export function bands(chart, count) {
  const step = (chart.right - chart.left) / count;
  const every = Math.max(1, Math.ceil((count * 24) / (chart.right - chart.left)));
  for (let k = 0; k < count; k += every) {
    const x = chart.left + (k + 0.5) * step;
    chart.drawing.append(text(k + 1, x, chart.bottom + 18, { class: "tick", "text-anchor": "middle" }));
  }
  chart.drawing.append(
    text("component", (chart.left + chart.right) / 2, chart.bottom + 38, { class: "axis", "text-anchor": "middle" }),
  );
  return { center: (k) => chart.left + (k + 0.5) * step, width: Math.min(64, 0.72 * step) };
}

export function key(entries) {
  return element("div", { class: "key" }, ...entries.map(([kind, words]) => {
    const mark = svg("svg", { class: "swatch", width: 11, height: 11 }, svg("rect", { class: kind }));
    return element("span", {}, mark, words);
  }));
}

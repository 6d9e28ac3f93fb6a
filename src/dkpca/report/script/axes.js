// What lies behind and before the points: grid, names of the axes, the lasso.

import { short } from "./dom.js";
import { cssColor } from "./theme.js";
import { apply, ticks } from "./view.js";

export const MARGIN = { left: 56, right: 10, top: 46, bottom: 44 };
const FONT = "13px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

export function cleared(canvas, ratio) {
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.font = FONT;
  return context;
}

export function drawGrid(context, { map, ranges, axes, names, width, height }) {
  context.fillStyle = cssColor("--soft");
  context.strokeStyle = cssColor("--line");
  context.lineWidth = 1;
  if (axes[2] >= 0) return drawCube(context, map, names, width, height);
  for (const value of visibleTicks(map.across[0], map.across[3], ranges[0], width / 90)) {
    const x = MARGIN.left + (apply(map.across, (value - ranges[0].middle) / ranges[0].half, 0, 0) + 1) * 0.5 * width;
    line(context, x, MARGIN.top, x, MARGIN.top + height);
    write(context, short(value), x, MARGIN.top + height + 17, "center");
  }
  for (const value of visibleTicks(map.up[1], map.up[3], ranges[1], height / 70)) {
    const y = MARGIN.top + (1 - apply(map.up, 0, (value - ranges[1].middle) / ranges[1].half, 0)) * 0.5 * height;
    line(context, MARGIN.left, y, MARGIN.left + width, y);
    write(context, short(value), MARGIN.left - 8, y + 4, "right");
  }
  context.fillStyle = cssColor("--ink");
  write(context, names[0], MARGIN.left + width / 2, MARGIN.top + height + 38, "center");
  context.save();
  context.translate(14, MARGIN.top + height / 2);
  context.rotate(-Math.PI / 2);
  write(context, names[1], 0, 0, "center");
  context.restore();
}

function visibleTicks(scale, shift, { middle, half }, about) {
  const [low, high] = [-1, 1].map((edge) => middle + half * (edge - shift) / scale);
  return ticks(low, high, about);
}

function drawCube(context, map, names, width, height) {
  const at = (x, y, z) => [
    MARGIN.left + (apply(map.across, x, y, z) + 1) * 0.5 * width,
    MARGIN.top + (1 - apply(map.up, x, y, z)) * 0.5 * height,
  ];
  const ends = [-1, 1];
  for (const a of ends) {
    for (const b of ends) {
      line(context, ...at(-1, a, b), ...at(1, a, b));
      line(context, ...at(a, -1, b), ...at(a, 1, b));
      line(context, ...at(a, b, -1), ...at(a, b, 1));
    }
  }
  context.fillStyle = cssColor("--ink");
  write(context, names[0], ...at(0, -1.12, 1.12), "center");
  write(context, names[1], ...at(-1.12, 0, 1.12), "center");
  write(context, names[2], ...at(1.12, -1.12, 0), "center");
}

function line(context, x1, y1, x2, y2) {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

function write(context, text, x, y, align) {
  context.textAlign = align;
  context.fillText(text, x, y);
}

export function drawLasso(context, path) {
  context.beginPath();
  path.forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.closePath();
  context.fillStyle = cssColor("--accent");
  context.globalAlpha = 0.12;
  context.fill();
  context.globalAlpha = 1;
  context.strokeStyle = cssColor("--accent");
  context.lineWidth = 1.5;
  context.stroke();
}

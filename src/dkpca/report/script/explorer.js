// The picture of the samples: what is shown, and how it answers.

import { MARGIN, cleared, drawGrid, drawLasso } from "./axes.js";
import { canvasPoints } from "./canvas2d.js";
import { shade } from "./colors.js";
import { byId, element, hideTip, percent, showTip } from "./dom.js";
import { about } from "./details.js";
import { mapping, newView, pixels, place, turn, zoomAt } from "./view.js";
import { webglPoints } from "./webgl.js";

const REACH = 14; // pixels from which a pointer finds a sample
const DIMMED = 0.13;

export class Explorer {
  constructor(header, samples) {
    this.header = header;
    this.samples = samples;
    this.view = newView();
    this.axes = [0, Math.min(1, samples.scores.length - 1), -1];
    this.column = null;
    this.hidden = new Set(); // groups of the legend
    this.hiddenKinds = new Set();
    this.selected = new Set();
    this.focused = null;
    this.neighbors = [];
    this.lasso = null;
    this.printing = false;
    this.renderer = webglPoints(byId("points")) ?? canvasPoints(byId("points"));
    this.renderer.shapes(samples.kinds);
    this.places = new Float32Array(2 * samples.count);
    this.colors = new Uint8Array(4 * samples.count);
    this.setAxes(this.axes);
  }

  setAxes(axes) {
    this.axes = axes;
    ({ positions: this.positions, ranges: this.ranges } = place(this.samples, axes));
    this.renderer.positions(this.positions);
    this.draw();
  }

  get flat() {
    return this.axes[2] < 0;
  }

  color(column) {
    this.column = column;
    this.hidden.clear();
    this.paint();
  }

  isVisible(sample) {
    return !this.hidden.has(this.shading.groupOf(sample)) && !this.hiddenKinds.has(this.samples.kinds[sample]);
  }

  paint() {
    this.shading = shade(this.column);
    const full = opacity(this.samples.count);
    for (let i = 0; i < this.samples.count; i++) {
      const [r, g, b] = this.shading.colorOf(i);
      const dimmed = this.selected.size && !this.selected.has(i);
      this.colors.set([r, g, b], 4 * i);
      this.colors[4 * i + 3] = this.isVisible(i) ? 255 * (dimmed ? DIMMED * full : this.selected.size ? 1 : full) : 0;
    }
    this.renderer.colors(this.colors);
    this.draw();
  }

  // Many changes, one drawing: the browser asks for it when it is ready.
  draw() {
    if (this.waiting || !this.shading) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = null;
      this.drawNow();
    });
  }

  drawNow() {
    const { width, height, ratio } = this.fit();
    this.map = mapping(this.view, this.flat, width, height);
    pixels(this.map, this.positions, width, height, this.places);
    const grid = cleared(byId("grid"), ratio);
    drawGrid(grid, { map: this.map, ranges: this.ranges, axes: this.axes, names: this.axisNames(), width, height });
    this.renderer.draw(this.map, pointSize(this.samples.count, width * height), this.samples.count, ratio);
    const front = cleared(byId("front"), ratio);
    if (this.printing) front.drawImage(byId("points"), 0, 0, width, height);
    if (this.lasso) drawLasso(front, this.lasso);
    this.drawRings();
  }

  // Canvases as large as their place, in the pixels of the screen.
  fit() {
    const box = byId("plot");
    const ratio = devicePixelRatio || 1;
    const size = { width: box.clientWidth - MARGIN.left - MARGIN.right, height: box.clientHeight - MARGIN.top - MARGIN.bottom };
    resize(byId("grid"), box.clientWidth, box.clientHeight, ratio);
    for (const name of ["points", "front"]) resize(byId(name), size.width, size.height, ratio);
    return { ...size, ratio };
  }

  axisNames() {
    const shares = this.header.scree?.found;
    return this.axes.map((d) => `component ${d + 1}` + (shares ? ` (${percent(shares[d], 1)})` : ""));
  }

  drawRings() {
    const rings = this.focused === null ? [] : [
      ...this.neighbors.map(({ sample }) => this.ring(sample, "neighbor")), this.ring(this.focused, "focus"),
    ];
    byId("rings").replaceChildren(...rings);
  }

  ring(sample, kind) {
    const made = element("i", { class: kind });
    made.style.left = `${MARGIN.left + this.places[2 * sample]}px`;
    made.style.top = `${MARGIN.top + this.places[2 * sample + 1]}px`;
    return made;
  }

  // A sample that was looked for has to be in the picture.
  reveal(sample) {
    const { clientWidth, clientHeight } = byId("front");
    const [x, y] = [this.places[2 * sample], this.places[2 * sample + 1]];
    if (x < 0 || y < 0 || x > clientWidth || y > clientHeight) this.reset();
  }

  at(x, y) {
    let best = -1, least = REACH ** 2;
    for (let i = 0; i < this.samples.count; i++) {
      const distance = (this.places[2 * i] - x) ** 2 + (this.places[2 * i + 1] - y) ** 2;
      if (distance < least && this.isVisible(i)) [best, least] = [i, distance];
    }
    return best;
  }

  hover(x, y, event) {
    const sample = this.at(x, y);
    byId("front").classList.toggle("over", sample >= 0);
    if (sample < 0) return hideTip();
    showTip(about(this.samples, sample, this.column), event.clientX, event.clientY);
  }

  drag(dx, dy) {
    hideTip();
    const canvas = byId("front");
    if (this.flat) {
      this.view.x += (2 * dx) / canvas.clientWidth;
      this.view.y -= (2 * dy) / canvas.clientHeight;
    } else {
      turn(this.view, dx / canvas.clientWidth, dy / canvas.clientHeight);
    }
    this.draw();
  }

  zoom(factor, x, y) {
    const canvas = byId("front");
    const [across, up] = x === undefined ? [0, 0] : [(2 * x) / canvas.clientWidth - 1, 1 - (2 * y) / canvas.clientHeight];
    zoomAt(this.view, factor, across, up);
    this.draw();
  }

  reset() {
    this.view = newView();
    this.draw();
  }
}

function resize(canvas, width, height, ratio) {
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
}

// In pixels, on a picture of a desktop's size; a phone's has less room.
function pointSize(count, area) {
  const size = count <= 300 ? 10 : count <= 4000 ? 7 : count <= 20_000 ? 5 : 3.4;
  return Math.max(2, size * Math.min(1, Math.sqrt(area / 360_000)));
}

const opacity = (count) => (count <= 4000 ? 0.78 : count <= 20_000 ? 0.65 : 0.5);

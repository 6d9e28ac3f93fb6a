// From scores to pixels: one linear map, the same for drawing, pointing and the lasso.

const PADDING = 1.08;

export function newView() {
  return { zoom: 1, x: 0, y: 0, yaw: -0.6, pitch: 0.45 };
}

// Scores of three components, each scaled to -1..1; the third is 0 in a flat picture.
export function place(samples, axes) {
  const positions = new Float32Array(3 * samples.count);
  const ranges = [];
  axes.forEach((component, k) => {
    if (component < 0) return;
    const values = samples.scores[component];
    let low = Infinity, high = -Infinity;
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    const middle = (low + high) / 2, half = (high - low) / 2 || 1;
    ranges[k] = { middle, half };
    for (let i = 0; i < values.length; i++) positions[3 * i + k] = (values[i] - middle) / half;
  });
  return { positions, ranges };
}

// Rows (a, b, c, shift) that map a position to the picture, -1..1 across, up and in depth.
export function mapping(view, flat, width, height) {
  const scale = view.zoom / PADDING;
  if (flat) {
    return { across: [scale, 0, 0, view.x], up: [0, scale, 0, view.y], depth: [0, 0, 0, 0] };
  }
  const [cy, sy, cp, sp] = [Math.cos(view.yaw), Math.sin(view.yaw), Math.cos(view.pitch), Math.sin(view.pitch)];
  const side = 0.8 * scale * Math.min(width, height);
  const [w, h] = [side / width, side / height];
  return {
    across: [w * cy, 0, w * sy, view.x],
    up: [h * sp * sy, h * cp, -h * sp * cy, view.y],
    depth: [-cp * sy / 1.75, sp / 1.75, cp * cy / 1.75, 0],
  };
}

export function apply([a, b, c, shift], x, y, z) {
  return a * x + b * y + c * z + shift;
}

export function pixels(map, positions, width, height, into) {
  const { across: [a, b, c, d], up: [e, f, g, h] } = map;
  for (let i = 0, p = 0; p < positions.length; i += 2, p += 3) {
    const x = positions[p], y = positions[p + 1], z = positions[p + 2];
    into[i] = (a * x + b * y + c * z + d + 1) * 0.5 * width;
    into[i + 1] = (1 - (e * x + f * y + g * z + h)) * 0.5 * height;
  }
  return into;
}

export function zoomAt(view, factor, x, y) {
  const zoom = Math.min(400, Math.max(0.4, view.zoom * factor));
  const change = zoom / view.zoom;
  view.x = x + (view.x - x) * change;
  view.y = y + (view.y - y) * change;
  view.zoom = zoom;
}

export function turn(view, across, down) {
  view.yaw += 3.2 * across;
  view.pitch = Math.min(1.57, Math.max(-1.57, view.pitch + 3.2 * down));
}

// Round numbers between two scores, about so many.
export function ticks(low, high, about) {
  const rough = (high - low) / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((part) => part * power).find((size) => size >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

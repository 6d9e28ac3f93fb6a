// The same points where a browser has no WebGL: slower, and the page says so.

import { apply } from "./view.js";

export function canvasPoints(canvas) {
  const context = canvas.getContext("2d");
  let positions, colors, shapes;
  return {
    slow: true,
    positions: (data) => { positions = data; },
    colors: (data) => { colors = data; },
    shapes: (data) => { shapes = data; },
    draw(map, size, count, ratio) {
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.clearRect(0, 0, canvas.width, canvas.height);
      for (let i = 0; i < count; i++) {
        const [r, g, b, a] = colors.subarray(4 * i, 4 * i + 4);
        if (!a) continue;
        const at = positions.subarray(3 * i, 3 * i + 3);
        const x = (apply(map.across, ...at) + 1) * 0.5 * canvas.width;
        const y = (1 - apply(map.up, ...at)) * 0.5 * canvas.height;
        context.fillStyle = `rgba(${r}, ${g}, ${b}, ${a / 255})`;
        drawShape(context, shapes[i], x, y, 0.5 * size * ratio);
      }
    },
  };
}

function drawShape(context, shape, x, y, radius) {
  context.beginPath();
  if (shape === 0) {
    context.arc(x, y, radius, 0, 2 * Math.PI);
  } else if (shape === 3) {
    context.arc(x, y, 1.5 * radius, 0, 2 * Math.PI);
    context.arc(x, y, 0.9 * radius, 0, 2 * Math.PI, true);
  } else if (shape === 1 || shape === 4) {
    const r = 1.5 * radius;
    diamond(context, x, y, r, r);
    if (shape === 4) diamond(context, x, y, -0.5 * r, 0.5 * r);
  } else {
    const [r, w] = [1.3 * radius, 0.45 * radius];
    for (const [dx, dy] of [[-r, -r + w], [-r + w, -r], [0, -w], [r - w, -r], [r, -r + w], [w, 0], [r, r - w],
      [r - w, r], [0, w], [-r + w, r], [-r, r - w], [-w, 0]]) context.lineTo(x + dx, y + dy);
  }
  context.fill();
}

// The other way around with a negative width: then it is a hole.
function diamond(context, x, y, width, height) {
  context.moveTo(x, y - height);
  for (const [dx, dy] of [[width, 0], [0, height], [-width, 0]]) context.lineTo(x + dx, y + dy);
  context.closePath();
}

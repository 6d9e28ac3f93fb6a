// Mouse, pen and fingers on the picture: move, turn, zoom, point, click, lasso.

const CLICK = 4; // pixels a hand may shake

export function startPointer(canvas, on) {
  const fingers = new Map();
  let start = null, path = null;

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, at(event));
    start = at(event);
    path = fingers.size === 1 && (on.lassoing() || event.shiftKey) ? [start] : null;
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    if (!fingers.has(event.pointerId)) return on.hover(x, y, event);
    const [oldX, oldY] = fingers.get(event.pointerId);
    const before = spread(fingers);
    fingers.set(event.pointerId, [x, y]);
    if (fingers.size === 2) {
      const after = spread(fingers);
      if (before && after) on.zoom(after.distance / before.distance, ...after.middle);
    } else if (path) {
      path.push([x, y]);
      on.lassoDrawn(path);
    } else if (Math.hypot(x - start[0], y - start[1]) > CLICK || start.moved) {
      start.moved = true;
      on.drag(x - oldX, y - oldY);
    }
  });
  const end = (event) => {
    if (!fingers.delete(event.pointerId)) return;
    const [x, y] = at(event);
    const still = Math.hypot(x - start[0], y - start[1]) <= CLICK && !start.moved;
    if (event.type === "pointercancel") on.lassoDrawn(null);
    else if (path && path.length > 2 && !still) on.lassoClosed(path);
    else if (still) on.click(x, y);
    if (path) on.lassoDrawn(null);
    path = null;
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", on.leave);
  // The wheel scrolls the page until the picture was clicked, or with Ctrl, as a trackpad's pinch sends it.
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    on.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), ...at(event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const [dx, dy] = { ArrowLeft: [30, 0], ArrowRight: [-30, 0], ArrowUp: [0, 30], ArrowDown: [0, -30] }[event.key] ?? [];
    if (dx === undefined) return;
    event.preventDefault();
    on.drag(dx, dy);
  });
}

function spread(fingers) {
  if (fingers.size !== 2) return null;
  const [[x1, y1], [x2, y2]] = [...fingers.values()];
  return { distance: Math.hypot(x2 - x1, y2 - y1) || 1, middle: [(x1 + x2) / 2, (y1 + y2) / 2] };
}

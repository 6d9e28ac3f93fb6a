// Elements without markup: what others wrote (ids, labels, names) only ever becomes text.

export const byId = (name) => document.getElementById(name);

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export function swatch(color, shape = "circle") {
  const made = element("span", { class: `swatch ${shape}` });
  made.style.setProperty("--swatch", color);
  return made;
}

export function setPressed(button, pressed) {
  button.setAttribute("aria-pressed", String(pressed));
}

export function download(name, blob) {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

export function fileName(title, suffix) {
  const plain = title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60);
  return `${plain || "dkpca"}${suffix}`;
}

const whole = new Intl.NumberFormat("en");
export const count = (number) => whole.format(number);

export function short(number) {
  if (!Number.isFinite(number)) return "no value";
  if (Number.isInteger(number) && Math.abs(number) < 1e7) return String(number);
  const size = Math.abs(number);
  return size >= 1e5 || size < 1e-3 ? number.toExponential(2) : String(Number(number.toPrecision(4)));
}

export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}%`;

// One tip for the whole page: charts say theirs in data-tip, the explorer calls it.
export function showTip(lines, x, y) {
  const tip = byId("tip");
  tip.replaceChildren(...lines.map((line, row) => element(row ? "div" : "b", {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18}px`;
}

export function hideTip() {
  byId("tip").hidden = true;
}

export function followTips() {
  addEventListener("pointerover", (event) => {
    const told = event.target.closest?.("[data-tip]");
    if (told) showTip(told.dataset.tip.split("\n"), event.clientX, event.clientY);
  });
  addEventListener("pointerout", (event) => {
    if (event.target.closest?.("[data-tip]")) hideTip();
  });
}

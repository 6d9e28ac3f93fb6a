// Find a sample by any part of its id; ids that begin with it come first.

import { byId, element } from "./dom.js";

const MOST = 8;

export function startSearch(samples, focus) {
  const [input, list] = [byId("search"), byId("matches")];
  const lower = samples.names.map((name) => name.toLowerCase());
  const close = () => { list.hidden = true; };
  const choose = (sample) => {
    input.value = samples.names[sample];
    close();
    focus(sample);
  };
  input.addEventListener("input", () => {
    const found = matches(lower, input.value.trim().toLowerCase());
    const items = found.map((sample) => element(
      "li", {}, element("button", { type: "button", onclick: () => choose(sample) }, samples.names[sample]),
    ));
    list.replaceChildren(...(items.length ? items : [element("li", { class: "hint" }, "no such id")]));
    list.hidden = input.value.trim() === "";
  });
  input.addEventListener("keydown", (event) => {
    const [first] = matches(lower, input.value.trim().toLowerCase());
    if (event.key === "Enter" && first !== undefined) choose(first);
    if (event.key === "Escape") close();
    if (event.key === "ArrowDown") list.querySelector("button")?.focus();
  });
  list.addEventListener("keydown", (event) => {
    const item = event.target.closest("li");
    const next = { ArrowDown: item?.nextSibling, ArrowUp: item?.previousSibling }[event.key];
    next?.querySelector("button")?.focus();
    if (event.key === "Escape") input.focus();
    if (event.key.startsWith("Arrow")) event.preventDefault();
  });
  addEventListener("pointerdown", (event) => {
    if (!event.target.closest(".search")) close();
  });
}

function matches(lower, wanted) {
  if (!wanted) return [];
  const exact = [], starts = [], holds = [];
  for (let i = 0; i < lower.length; i++) {
    const at = lower[i].indexOf(wanted);
    if (at < 0) continue;
    if (lower[i].length === wanted.length) exact.push(i);
    else if (at === 0) starts.push(i);
    else if (holds.length < MOST) holds.push(i);
  }
  return [...exact, ...starts, ...holds].slice(0, MOST);
}

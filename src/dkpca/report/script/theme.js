// Light or dark: as the system says, until the button is used; paper is always light.

import { byId, setPressed } from "./dom.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

let chosen = null;

const isDark = () => (chosen ?? (system.matches ? "dark" : "light")) === "dark";
const applyTheme = () => { root.dataset.theme = isDark() ? "dark" : "light"; };

applyTheme(); // before anything is drawn

export function cssColor(name) {
  return getComputedStyle(root).getPropertyValue(name).trim();
}

export function startTheme(changed) {
  const button = byId("theme");
  const tell = () => {
    applyTheme();
    button.textContent = isDark() ? "Light" : "Dark";
    setPressed(button, isDark());
    changed();
  };
  button.addEventListener("click", () => {
    chosen = isDark() ? "light" : "dark";
    tell();
  });
  system.addEventListener("change", tell);
  tell();
}

// Canvases are pictures of their moment: draw them light and narrow before they are printed.
export function onPrint(before, after) {
  addEventListener("beforeprint", () => {
    root.dataset.theme = "light";
    root.classList.add("printing");
    before();
  });
  addEventListener("afterprint", () => {
    applyTheme();
    root.classList.remove("printing");
    after();
  });
}

// What the colors mean; a click on a group hides it, or shows it again.

import { asCss, onScale } from "./colors.js";
import { byId, count, element, setPressed, short, swatch } from "./dom.js";

export function drawLegend(column, shading, hidden, toggle) {
  const box = byId("legend");
  box.replaceChildren(element("h3", {}, column ? column.name : "samples"));
  if (shading.scale) box.append(scaleBar(shading.scale));
  shading.groups.forEach((group, position) => {
    const button = element(
      "button", { type: "button", class: "group", title: "Show or hide", onclick: () => toggle(position) },
      swatch(asCss(group.color)), element("span", { class: "name" }, group.name),
      element("span", { class: "count" }, count(group.count)),
    );
    setPressed(button, !hidden.has(position));
    box.append(button);
  });
}

function scaleBar(scale) {
  const bar = element("div", { class: "scale" });
  const steps = Array.from({ length: 11 }, (_, k) => asCss(onScale(k / 10)));
  bar.style.background = `linear-gradient(to right, ${steps.join(", ")})`;
  const low = (scale.cutLow ? "≤ " : "") + short(scale.low);
  const high = (scale.cutHigh ? "≥ " : "") + short(scale.high);
  return element("div", {}, bar, element("div", { class: "ends" }, element("span", {}, low), element("span", {}, high)));
}

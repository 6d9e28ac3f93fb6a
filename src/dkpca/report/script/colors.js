// What color a sample has: a palette for categories, a scale for numbers, gray for the rest.

import { cssColor } from "./theme.js";

const CLASS_COLORS = 8;
// Eleven points of viridis (van der Walt and Smith), even to the eye and safe for color-blind readers.
const VIRIDIS = ["#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#7ad151",
  "#bddf26", "#fde725"];

export function rgb(color) {
  return [1, 3, 5].map((start) => parseInt(color.slice(start, start + 2), 16));
}

export function onScale(share) {
  // The ends of the scale that vanish on this background are left out.
  const [from, to] = cssColor("--scale").split(" ").map(Number);
  const at = (from + (to - from) * Math.min(1, Math.max(0, share))) * (VIRIDIS.length - 1);
  const below = Math.min(VIRIDIS.length - 2, Math.floor(at));
  const [a, b] = [rgb(VIRIDIS[below]), rgb(VIRIDIS[below + 1])];
  return a.map((value, k) => Math.round(value + (at - below) * (b[k] - value)));
}

export const asCss = ([r, g, b]) => `rgb(${r}, ${g}, ${b})`;

export function shade(column) {
  if (!column) {
    const color = rgb(cssColor("--class-1"));
    return { groups: [], groupOf: () => -1, colorOf: () => color };
  }
  return column.codes ? shadeCategories(column) : shadeNumbers(column);
}

function shadeCategories(column) {
  const counts = new Uint32Array(column.categories.length);
  for (const code of column.codes) counts[code]++;
  const there = [...counts.keys()].filter((code) => counts[code] && code !== column.none);
  const named = there.length <= CLASS_COLORS ? there : mostFrequent(there, counts, CLASS_COLORS - 1);
  const groups = named.map((code, position) => ({
    name: column.categories[code], codes: [code], color: rgb(cssColor(`--class-${position + 1}`)),
  }));
  const others = there.filter((code) => !named.includes(code));
  const gray = rgb(cssColor("--other"));
  if (others.length) groups.push({ name: `${others.length} others`, codes: others, color: gray });
  if (column.none >= 0 && counts[column.none]) {
    groups.push({ name: column.categories[column.none], codes: [column.none], color: rgb(cssColor("--none")) });
  }
  const groupOfCode = new Int16Array(counts.length);
  groups.forEach((group, position) => {
    group.count = group.codes.reduce((sum, code) => sum + counts[code], 0);
    group.codes.forEach((code) => { groupOfCode[code] = position; });
  });
  const groupOf = (sample) => groupOfCode[column.codes[sample]];
  return { groups, groupOf, colorOf: (sample) => groups[groupOf(sample)].color };
}

function mostFrequent(codes, counts, most) {
  const frequent = [...codes].sort((a, b) => counts[b] - counts[a]).slice(0, most);
  return codes.filter((code) => frequent.includes(code));
}

function shadeNumbers(column) {
  const scale = rangeOf(column.numbers);
  const width = scale.high - scale.low || 1;
  const none = rgb(cssColor("--none"));
  const steps = Array.from({ length: 256 }, (_, step) => onScale(step / 255));
  const colorOf = (sample) => {
    const value = column.numbers[sample];
    if (!Number.isFinite(value)) return none;
    return steps[Math.round(255 * Math.min(1, Math.max(0, (value - scale.low) / width)))];
  };
  return { groups: [], groupOf: () => -1, colorOf, scale };
}

// A few far values would take all colors: then the scale ends at the 1st and 99th percentile, and says so.
export function rangeOf(numbers) {
  const known = Float32Array.from(numbers.filter(Number.isFinite)).sort();
  if (!known.length) return { low: 0, high: 1, cutLow: false, cutHigh: false };
  const [low, high] = [known[0], known[known.length - 1]];
  const [inner, outer] = [0.01, 0.99].map((share) => known[Math.round(share * (known.length - 1))]);
  if (outer > inner && high - low > 3 * (outer - inner)) {
    return { low: inner, high: outer, cutLow: low < inner, cutHigh: high > outer };
  }
  return { low, high, cutLow: false, cutHigh: false };
}

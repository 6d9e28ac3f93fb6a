// The samples: names, scores and columns, out of the two data elements of the page.

import { byId } from "./dom.js";

const TYPES = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array };
const STEPS = 65535;
export const NEW = 1, OUTSIDE = 2, COMPLETED = 3;

export async function readData() {
  const header = JSON.parse(byId("header").textContent);
  const buffer = await inflate(fromBase64(byId("bundle").textContent));
  byId("bundle").remove();
  const samples = {
    count: header.count,
    fitted: header.fitted,
    names: arrayAt(buffer, header.names),
    kinds: arrayAt(buffer, header.kinds),
    scores: scoresAt(buffer, header.scores, header.count),
    columns: header.columns.map((column) => columnAt(buffer, column)),
  };
  samples.columns.push(...samples.scores.map((numbers, d) => ({
    name: `component ${d + 1}`, group: "components", note: "", numbers,
  })));
  return { header, samples };
}

function fromBase64(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

function arrayAt(buffer, place) {
  if (place.type === "texts") {
    return JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, place.offset, place.length)));
  }
  return new TYPES[place.type](buffer, place.offset, place.length);
}

function scoresAt(buffer, packed, count) {
  const steps = arrayAt(buffer, packed.steps);
  return packed.low.map((low, d) => {
    const unit = (packed.high[d] - low) / STEPS;
    return Float32Array.from(steps.subarray(d * count, (d + 1) * count), (step) => low + unit * step);
  });
}

function columnAt(buffer, column) {
  const { numbers, codes, categories, ...rest } = column;
  if (numbers) return { ...rest, numbers: arrayAt(buffer, numbers) };
  return { ...rest, codes: arrayAt(buffer, codes), categories: arrayAt(buffer, categories) };
}

export function valueOf(column, sample) {
  return column.codes ? column.categories[column.codes[sample]] : column.numbers[sample];
}

// The samples: names, scores and columns, out of the data element of the page.

import { byId } from "./dom.js";

const TYPES = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array };
const STEPS = 65535;
export const NEW = 1, OUTSIDE = 2, COMPLETED = 3, NEW_COMPLETED = 4;

export async function readData() {
  const header = JSON.parse(byId("data").textContent);
  byId("data").remove();
  const samples = {
    count: header.count,
    names: await arrayOf(header.names),
    kinds: await arrayOf(header.kinds),
    scores: await scoresOf(header.scores, header.count),
    columns: await Promise.all(header.columns.map(columnOf)),
  };
  samples.columns.push(...samples.scores.map((numbers, d) => ({
    name: `component ${d + 1}`, group: "components", numbers,
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

async function arrayOf({ type, data }) {
  const buffer = await inflate(fromBase64(data));
  return type === "texts" ? JSON.parse(new TextDecoder().decode(buffer)) : new TYPES[type](buffer);
}

async function scoresOf(packed, count) {
  const steps = await arrayOf(packed.steps);
  return packed.low.map((low, d) => {
    const unit = (packed.high[d] - low) / STEPS;
    return Float32Array.from(steps.subarray(d * count, (d + 1) * count), (step) => low + unit * step);
  });
}

async function columnOf(column) {
  const { numbers, codes, categories, ...rest } = column;
  if (numbers) return { ...rest, numbers: await arrayOf(numbers) };
  return { ...rest, codes: await arrayOf(codes), categories: await arrayOf(categories) };
}

export function valueOf(column, sample) {
  return column.codes ? column.categories[column.codes[sample]] : column.numbers[sample];
}

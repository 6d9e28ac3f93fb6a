// The samples nearest to one, in all components of the page.

export function nearest(samples, sample, most) {
  const distances = new Float64Array(samples.count);
  for (const scores of samples.scores) {
    const here = scores[sample];
    for (let i = 0; i < distances.length; i++) distances[i] += (scores[i] - here) ** 2;
  }
  distances[sample] = Infinity;
  const found = [];
  for (let i = 0; i < distances.length; i++) {
    if (found.length === most && distances[i] >= distances[found[most - 1]]) continue;
    if (i === sample) continue;
    let at = found.length;
    while (at && distances[found[at - 1]] > distances[i]) at--;
    found.splice(at, 0, i);
    if (found.length > most) found.pop();
  }
  return found.map((neighbor) => ({ sample: neighbor, distance: Math.sqrt(distances[neighbor]) }));
}

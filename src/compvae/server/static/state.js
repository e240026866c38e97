// What the page shows, as one plain object; the same in the address behind #, so that a link reproduces it.
//
// A part is {kind: {attribute: category}, place: {attribute: number}, count, key}: parts without a place are counted,
// parts with one stand for themselves and keep their key, and with it their latent, when they move.

const MODES = ["compose", "edit", "tail"];

export const state = { model: "", mode: "compose", parts: [], context: {}, seed: 0, noise: false, view: "fan", observed: null, edits: [], event: "peak", level: 1 };

export const categorical = (model) => model.attributes.filter((a) => a.type === "categorical");
export const continuous = (model) => model.attributes.filter((a) => a.type === "continuous");
export const nameOf = (kind) => Object.values(kind).join(" ");
export const quantileOf = (level) => 1 - 10 ** -level;

// Rejection draws 20,000 wholes for the highest 1%; subset simulation takes a fraction of that.
export const tailMethod = () => (state.level <= 1 ? "rejection" : "subset");

// All kinds of a model: every combination of its categories.
export function kinds(model) {
  return categorical(model).reduce(
    (found, a) => found.flatMap((kind) => a.categories.map((c) => ({ ...kind, [a.name]: c }))),
    [{}],
  );
}

// From the dicts of the API and back.
export function fromDicts(model, dicts) {
  const read = (names, dict) => Object.fromEntries(names.map((a) => [a.name, dict[a.name]]));
  return dicts.map((dict, key) => ({ kind: read(categorical(model), dict), place: read(continuous(model), dict), count: dict.count ?? 1, key }));
}

export const toDict = (part) => ({ ...part.kind, ...part.place });
export const toDicts = (model, parts) =>
  parts.filter((p) => p.count > 0).map((p) => (model.countable ? { ...toDict(p), count: p.count } : toDict(p)));
export const total = (parts) => parts.reduce((sum, p) => sum + p.count, 0);
export const same = (a, b) => JSON.stringify(toDict(a)) === JSON.stringify(toDict(b));
export const freeKey = (parts) => parts.reduce((most, p) => Math.max(most, p.key), -1) + 1;

// The parts after edits of an observed whole; of alike parts those that came last go first, as on the server.
export function edited(model, observed, edits) {
  const runs = observed.map((p) => ({ ...p, added: false }));
  for (const edit of edits) {
    for (const part of edit.remove ?? []) {
      for (let left = part.count; left > 0; ) {
        const at = runs.findLastIndex((p) => p.count > 0 && same(p, part));
        if (at < 0) break;
        const taken = Math.min(left, runs[at].count);
        runs[at] = { ...runs[at], count: runs[at].count - taken };
        left -= taken;
      }
    }
    for (const part of edit.add ?? []) runs.push({ ...part, key: freeKey(runs), added: true });
  }
  return runs.filter((p) => p.count > 0);
}

export function permalink() {
  const kept = { ...state };
  if (kept.mode !== "edit") delete kept.observed, delete kept.edits;
  return `#${encodeURIComponent(JSON.stringify(kept))}`;
}

// Reads a link; what does not fit the model is left as it was.
export function restore(fragment, models) {
  let given;
  try {
    given = JSON.parse(decodeURIComponent(fragment.slice(1)));
  } catch {
    return false;
  }
  const model = models.find((m) => m.name === given?.model);
  if (!model) return false;
  Object.assign(state, { model: model.name, context: {}, edits: [], observed: null });
  if (MODES.includes(given.mode) && (given.mode !== "edit" || model.truth)) state.mode = given.mode;
  state.parts = readParts(model, given.parts) ?? fromDicts(model, model.start);
  if (Number.isSafeInteger(given.seed) && given.seed >= 0) state.seed = given.seed;
  state.noise = given.noise === true;
  state.view = given.view === "draws" ? "draws" : "fan";
  if (model.events.includes(given.event)) state.event = given.event;
  if (given.level >= 0.3 && given.level <= 4) state.level = given.level;
  readContext(model, given.context);
  readObserved(model, given);
  return true;
}

function readParts(model, parts) {
  if (!Array.isArray(parts) || !parts.length || parts.length > 1000) return null;
  const fits = (p) =>
    p && Number.isSafeInteger(p.count) && p.count >= 0 && Number.isSafeInteger(p.key) &&
    categorical(model).every((a) => a.categories.includes(p.kind?.[a.name])) &&
    continuous(model).every((a) => p.place?.[a.name] >= a.low && p.place?.[a.name] <= a.high);
  if (!parts.every(fits)) return null;
  const pick = (names, from) => Object.fromEntries(names.map((a) => [a.name, from[a.name]]));
  return parts.map((p) => ({ kind: pick(categorical(model), p.kind), place: pick(continuous(model), p.place ?? {}), count: p.count, key: p.key }));
}

function readContext(model, context) {
  for (const a of model.context) {
    const value = context?.[a.name];
    const known = a.type === "categorical" ? a.categories.includes(value) : value >= a.low && value <= a.high;
    if (known) state.context[a.name] = value;
  }
}

function readObserved(model, { observed, edits }) {
  const parts = readParts(model, observed?.parts);
  if (!parts || !Number.isSafeInteger(observed.drawn) || observed.drawn < 0) return;
  state.observed = { parts, drawn: observed.drawn };
  const steps = Array.isArray(edits) ? edits.slice(0, model.limits.edits) : [];
  for (const step of steps) {
    const remove = readParts(model, step?.remove);
    const add = readParts(model, step?.add);
    if (remove || add) state.edits.push({ ...(remove && { remove }), ...(add && { add }) });
  }
}

export const newSeed = () => Math.floor(Math.random() * 2 ** 31);

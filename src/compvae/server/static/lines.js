// The Python and shell lines that do what the page shows.

import { edited, quantileOf, state, tailMethod, toDict, toDicts } from "./state.js";

const json = (value) => JSON.stringify(value).replaceAll('":', '": ').replaceAll(',"', ', "').replaceAll(",{", ", {");
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
const plain = (text) => (/^[\w./:,=-]+$/.test(text) ? text : quoted(text));
const nameable = (model) => model.attributes.length === 1 && model.countable;

function counts(parts) {
  const found = {};
  for (const p of parts) {
    const [name] = Object.values(p.kind);
    found[name] = (found[name] ?? 0) + p.count;
  }
  return found;
}

const python = (model, parts) => (nameable(model) ? json(counts(parts)) : json(toDicts(model, parts)));

function shell(model, parts) {
  if (!nameable(model)) return quoted(JSON.stringify(toDicts(model, parts)));
  const found = counts(parts);
  const text = Object.keys(found).map((name) => `${name}:${found[name]}`).join(",");
  return /^[\w:,-]+$/.test(text) ? text : quoted(JSON.stringify(found));
}

const known = () => Object.keys(state.context).length > 0;
const contextPython = () => (known() ? `, context=${json(state.context)}` : "");
const contextShell = () => (known() ? ` --context ${quoted(JSON.stringify(state.context))}` : "");
const keysOf = (model) => (model.countable ? null : state.parts.map((p) => p.key));

export function lines(model, n) {
  const head = `import compvae\n\nmodel = compvae.load(${json(model.source)})\n`;
  return { compose, edit, tail }[state.mode](model, n, head);
}

function compose(model, n, head) {
  const keys = keysOf(model);
  const noise = state.noise ? ", noise=True" : "";
  return {
    python: `${head}composed = model.compose(${python(model, state.parts)}${keys ? `, keys=${json(keys)}` : ""}${contextPython()})\nx = composed.decode(n=${n}, seed=${state.seed}${noise})`,
    shell: `compvae sample ${plain(model.source)} --by-part${keys ? ` --keys ${keys.join(",")}` : ""} --parts ${shell(model, state.parts)}${contextShell()} -n ${n} --seed ${state.seed}${state.noise ? "" : " --no-noise"} --out x.npz`,
  };
}

function tail(model, n, head) {
  const q = Number(quantileOf(state.level).toPrecision(6));
  return {
    python: `${head}extreme = model.tail(${python(model, state.parts)}, event=${json(state.event)}, quantile=${q}, n=${n}, seed=${state.seed}${contextPython()}, noise=${state.noise ? "True" : "False"}, method="${tailMethod()}")\nprint(extreme.probability, extreme.threshold)`,
    shell: `compvae tail ${plain(model.source)} --parts ${shell(model, state.parts)}${contextShell()} --event ${state.event} --quantile ${q} --method ${tailMethod()} -n ${n} --seed ${state.seed}${state.noise ? "" : " --no-noise"} --out tail.npz`,
  };
}

function edit(model, n, head) {
  const { parts, drawn } = state.observed;
  const list = (some) => json(some.map((p) => (p.count > 1 ? { ...toDict(p), count: p.count } : toDict(p))));
  const verbs = (step) =>
    step.remove && step.add ? `.replace(${list(step.remove)}, ${list(step.add)})` : step.remove ? `.remove(${list(step.remove)})` : `.add(${list(step.add)})`;
  const now = edited(model, parts, state.edits);
  const gone = without(parts, now.filter((p) => !p.added)), came = now.filter((p) => p.added);
  const noise = state.noise ? ", noise=True" : "";
  return {
    python:
      `${head}truth = compvae.problems.get(${json(model.problem)})\n` +
      `x = truth.truth(${python(model, parts)}, n=1, seed=${drawn}${contextPython()})[0]\n` +
      `posterior = model.infer(x, ${python(model, parts)}${contextPython()})\n` +
      `after = posterior${state.edits.map(verbs).join("")}\n` +
      `y, draws = after.decode(), after.decode(n=${n}, seed=${state.seed}${noise})`,
    shell:
      `# observed.npz is the button above\n` +
      (gone.length || came.length
        ? `compvae edit ${plain(model.source)} --data observed.npz --parts ${shell(model, parts)}${contextShell()}` +
          (gone.length ? ` --remove ${shell(model, gone)}` : "") + (came.length ? ` --add ${shell(model, came)}` : "") + ` -n ${n} --seed ${state.seed}${state.noise ? " --noise" : ""} --out y.npz`
        : `compvae infer ${plain(model.source)} --data observed.npz --parts ${shell(model, parts)}${contextShell()} --out w.npz`),
  };
}

// What of some is not among the others, run by run.
function without(some, others) {
  return some.map((p) => ({ ...p, count: p.count - (others.find((o) => o.key === p.key)?.count ?? 0) })).filter((p) => p.count > 0);
}

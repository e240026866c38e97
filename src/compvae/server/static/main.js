// The page: builds itself from what the server says of a model, asks for wholes, shows them.

import { Latest, Refusal, ask, file, models, setToken } from "./api.js";
import { CurvePicture, spark } from "./curves.js";
import { ImagePicture, drawImage, isImage } from "./images.js";
import { lines } from "./lines.js";
import { covariates, element, palette, placedRows, steppers } from "./parts.js";
import { copy, save, saveCanvas } from "./take.js";
import { continuous, edited, freeKey, fromDicts, nameOf, newSeed, permalink, quantileOf, restore, same, state, tailMethod, toDicts, total } from "./state.js";

const $ = (id) => document.getElementById(id);
const queue = new Latest();
let served = [];
let model = null;
let picture = null;
let updateSteppers = null;
let nextKind = null;
let linking = 0;
let started = 0; // when the user did what is being answered

const CURVE_EVENTS = { peak: "peak: the highest value", energy: "energy: the sum", ramp: "ramp: the steepest step" };
const IMAGE_EVENTS = { peak: "peak: the brightest value", energy: "energy: the sum of all light", ramp: "ramp: the sharpest edge" };

const drawsOf = () => (isImage(model.shape) ? 8 : 32);
const current = () => (state.mode === "edit" ? edited(model, state.observed.parts, state.edits) : state.parts);
const contextIn = () => (model.context.length ? state.context : null);

// -- requests ------------------------------------------------------------------------------------------------------

function request() {
  const base = { model: model.name, context: contextIn(), seed: state.seed };
  if (state.mode === "edit") {
    const edits = state.edits.map((e) => ({ ...(e.remove && { remove: toDicts(model, e.remove) }), ...(e.add && { add: toDicts(model, e.add) }) }));
    return ["edit", { ...base, parts: toDicts(model, state.observed.parts), drawn: state.observed.drawn, edits, n: drawsOf(), noise: state.noise }];
  }
  const parts = toDicts(model, state.parts);
  if (state.mode === "tail") {
    return ["tail", { ...base, parts, event: state.event, quantile: Number(quantileOf(state.level).toPrecision(6)), n: drawsOf(), noise: state.noise, method: tailMethod() }];
  }
  const keys = model.countable ? null : state.parts.map((p) => p.key);
  return ["sample", { ...base, parts, n: drawsOf(), noise: state.noise, by_part: true, keys }];
}

function redraw() {
  started = started || performance.now();
  refresh();
  return queue.run(async () => {
    const since = started;
    started = 0;
    const [name, body] = request();
    if (name === "tail") $("status").textContent = "looking for extreme wholes ...";
    try {
      const answer = await ask(name, body);
      if (!queue.next) show(name, answer, since);
    } catch (error) {
      $("picture").classList.add("stale"); // it shows what was there before
      complain(error);
    }
  });
}

function show(name, answer, since) {
  complain(null);
  $("picture").classList.remove("stale");
  ({ sample: showSample, edit: showEdit, tail: showTail })[name](answer);
  const took = performance.now() - since;
  const share = answer.milliseconds === undefined ? "" : `, ${answer.milliseconds.toFixed(0)} ms of it in the model`;
  const rows = (answer.draws?.rows ?? answer.x.rows).length;
  $("status").textContent = `${rows} draws of ${plural(total(current()), "part")} in ${took.toFixed(0)} ms${share}`;
  requestAnimationFrame(() => setTimeout(() => {
    performance.measure("redraw", { start: since, end: performance.now(), detail: answer.milliseconds });
    document.body.dataset.drawn = Number(document.body.dataset.drawn ?? 0) + 1;
  }));
}

function legend(...entries) {
  $("legend").replaceChildren(...entries.map(([className, text]) => element("span", { className }, element("b", { textContent: text }))));
}

const fanText = () => (state.view === "fan" ? [["fan", "50% and 90% of the draws"], ["median", "median"], ["one", "one draw"]] : [["fan", "draws"], ["one", "one of them"]]);

function showDraws(x) {
  if (picture instanceof ImagePicture) {
    legend();
    picture.show({ image: x.rows[0], small: [], rows: x.rows, parts: state.parts });
  } else {
    legend(...fanText());
    picture.show({ rows: x.rows, view: state.view, lines: [] });
  }
}

function showSample({ x }) {
  $("told").textContent = "";
  showDraws(x);
}

function showEdit({ x, before, after, draws, exact, rmse }) {
  const untouched = !state.edits.length;
  $("told").textContent = untouched
    ? "Nothing was changed yet: the model's reading of the whole lies on it."
    : rmse === null ? "New parts are random: the exact counterfactual is drawn afresh for them." : `Distance to the exact counterfactual: ${rmse.toPrecision(2)} (RMSE).`;
  if (picture instanceof ImagePicture) {
    const small = [{ values: x.values, text: "observed" }, { values: before.values, text: "as the model sees it" }];
    if (exact) small.push({ values: exact.rows[0], text: exact.rows.length > 1 ? "exact, one draw" : "exact" });
    legend();
    picture.show({ image: after.values, small, rows: draws.rows, parts: current() });
    return;
  }
  legend(["second", "observed"], ["one", "edited: mean"], ["fan", "50% and 90% of its draws"], ["third", exact?.rows.length > 1 ? "exact counterfactual, one draw" : "exact counterfactual"]);
  const marks = [{ values: x.values, className: "second", dash: [2, 4] }];
  if (exact) marks.push({ values: exact.rows[0], className: "third", dash: [8, 4] });
  picture.show({ rows: [after.values, ...draws.rows], view: state.view, lines: marks });
}

function showTail({ x, probability, cv, threshold, draws, method }) {
  const odds = probability > 0 ? Math.round(1 / probability).toLocaleString("en") : "many";
  $("told").textContent = `P(${state.event} ≥ ${`${threshold.toPrecision(4)} ${model.unit}`.trim()}) = ${probability.toPrecision(2)} ± ${(100 * cv).toFixed(0)}%: 1 in ${odds}, from ${draws.toLocaleString("en")} draws (${method}).`;
  showDraws(x);
}

function complain(error) {
  $("error").hidden = !error;
  $("error").textContent = error ? (error instanceof Refusal ? error.message : `No answer: ${error.message}`) : "";
  if (!error) return;
  if (error.status === 503 && state.mode === "tail") $("error").textContent += ". The lines below, run on your own machine, have all the time they need.";
  $("status").textContent = $("told").textContent = "";
  if (error.status === 401) askToken();
}

// -- changes -------------------------------------------------------------------------------------------------------

function changed(action) {
  started = performance.now();
  action();
  redraw();
}

function step(edit) {
  if (state.edits.length >= model.limits.edits) return complain(new Error(`at most ${model.limits.edits} edits; go back to the observed parts`));
  changed(() => state.edits.push(edit));
}

function changeCount(kind, by) {
  const part = { kind, place: {}, count: Math.abs(by), key: 0 };
  if (state.mode === "edit") return step(by > 0 ? { add: [part] } : { remove: [part] });
  changed(() => {
    const there = state.parts.find((p) => same(p, part));
    if (there) there.count += by;
    else state.parts.push({ ...part, key: freeKey(state.parts) });
    state.parts = state.parts.filter((p) => p.count > 0);
  });
}

const hands = {
  move(index, place, done = true) {
    const part = current()[index];
    if (!part) return;
    if (state.mode === "edit") {
      if (done && !same(part, { ...part, place })) step({ remove: [{ ...part, count: 1 }], add: [{ ...part, place, count: 1 }] });
    } else changed(() => (part.place = place));
  },
  remove(index) {
    const part = current()[index];
    if (!part || total(current()) === 1) return;
    if (state.mode === "edit") step({ remove: [{ ...part, count: 1 }] });
    else changed(() => state.parts.splice(index, 1));
  },
  add(place) {
    const somewhere = () => Object.fromEntries(continuous(model).map((a) => [a.name, Math.round(100 * (a.low + Math.random() * (a.high - a.low))) / 100]));
    const parts = current();
    if (total(parts) >= model.limits.placed) return complain(new Error(`at most ${model.limits.placed} parts here`));
    const part = { kind: nextKind, place: place ?? somewhere(), count: 1, key: freeKey(parts) };
    if (state.mode === "edit") step({ add: [part] });
    else changed(() => state.parts.push(part));
  },
};

function observe(parts, drawn) {
  changed(() => {
    state.observed = { parts, drawn };
    state.edits = [];
    $("alone").hidden = true;
  });
}

async function recover() {
  const body = { model: model.name, context: contextIn(), parts: toDicts(model, state.observed.parts), drawn: state.observed.drawn };
  try {
    const { alone, rmse, parts, bound } = await ask("infer", body);
    const cards = parts.map((dict, i) => {
      const part = fromDicts(model, [dict])[0];
      const canvas = element("canvas");
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${nameOf(part.kind)} alone`);
      const image = isImage(model.shape);
      if (image) drawImage(canvas, model.shape, alone.rows[i]);
      else spark(canvas, alone.rows[i]);
      const gone = element("button", { type: "button", textContent: "Remove one" });
      gone.addEventListener("click", () => {
        const there = current().some((p) => same(p, part));
        if (there && total(current()) > 1) step({ remove: [{ ...part, count: 1 }] });
      });
      const name = `${nameOf(part.kind).replaceAll("_", " ")}${dict.count > 1 ? ` × ${dict.count}` : ""}`;
      return element("div", { className: `part-card${image ? " image" : ""}` }, canvas, element("div", { className: "row" }, element("span", { textContent: name }), gone));
    });
    $("alone-list").replaceChildren(...cards);
    $("alone").hidden = false;
    $("told").textContent = `Recovered to within ${rmse.toPrecision(2)} (RMSE); bound on ln p(x | parts): ${bound.total.toFixed(1)} nats.`;
  } catch (error) {
    complain(error);
  }
}

// -- the controls as they should be --------------------------------------------------------------------------------

function refresh() {
  const parts = current();
  if (model.countable) updateSteppers(parts);
  else placedRows($("parts"), model, parts, hands);
  if (picture instanceof ImagePicture) picture.place(parts);
  const size = total(parts);
  $("size").textContent = `K = ${size.toLocaleString("en")}`;
  $("beyond").hidden = !(model.trained_parts && size > model.trained_parts);
  $("beyond").textContent = `Trained on at most ${model.trained_parts} parts: this is further.`;
  $("undo").disabled = $("reset").disabled = !state.edits.length;
  $("quantile").ariaValueText = $("quantile-text").textContent = `the highest ${Number((100 * (1 - quantileOf(state.level))).toPrecision(2))}% of the ${state.event}`;
  $("seed").value = state.seed;
  const text = lines(model, drawsOf());
  $("python").textContent = text.python;
  $("shell").textContent = text.shell;
  clearTimeout(linking); // browsers refuse to change the address at every step of a drag
  linking = setTimeout(() => history.replaceState(null, "", permalink()), 150);
}

function setMode(mode) {
  state.mode = mode;
  if (mode === "edit" && !state.observed) {
    const [first] = model.examples;
    state.observed = { parts: fromDicts(model, first.parts), drawn: first.drawn };
    state.edits = [];
  }
  document.querySelector(`input[name=mode][value=${mode}]`).checked = true;
  $("observed").hidden = $("edit-tools").hidden = $("observed-file").hidden = mode !== "edit";
  $("tail").hidden = mode !== "tail";
  $("alone").hidden = true;
  $("told").textContent = "";
  $("view").hidden = $("view-label").hidden = isImage(model.shape);
  $("example").value = model.examples.findIndex((e) => e.drawn === state.observed?.drawn);
  const where = model.countable ? `How many of each ${model.attributes.map((a) => a.name).join(" and ")}.` : "Click the image to put a part there; drag parts, or move them with the arrow keys.";
  $("parts-hint").textContent = mode === "edit" ? `${where} Changes are edits of the observed whole.` : where;
}

function setModel(name) {
  model = served.find((m) => m.name === name);
  $("model").value = name;
  $("summary").textContent = model.summary;
  document.querySelector("input[value=edit]").disabled = !model.truth;
  $("example").replaceChildren(...model.examples.map((e, i) => element("option", { value: i, textContent: `${e.title}: ${brief(e.parts)}` })), element("option", { value: -1, textContent: "drawn from the truth", hidden: true }));
  $("event").replaceChildren(...model.events.map((e) => element("option", { value: e, textContent: (isImage(model.shape) ? IMAGE_EVENTS : CURVE_EVENTS)[e] })));
  $("event").value = state.event;
  $("quantile").value = state.level;
  $("view").value = state.view;
  $("noise").checked = state.noise;
  picture?.destroy();
  legend();
  $("parts").replaceChildren();
  picture = isImage(model.shape) ? new ImagePicture($("plot"), model, hands) : new CurvePicture($("plot"), model);
  palette($("palette"), model, (kind) => (nextKind = kind));
  if (model.countable) updateSteppers = steppers($("parts"), model, changeCount);
  $("context-section").hidden = !model.context.length;
  covariates($("context"), model, state.context, (covariate, value) =>
    changed(() => (value === null ? delete state.context[covariate] : (state.context[covariate] = value))));
  setMode(state.mode);
}

const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
const brief = (dicts) => fromDicts(model, dicts).map((p) => nameOf(p.kind) + (p.count > 1 ? ` × ${p.count}` : "")).join(", ");

function begin(name) {
  const chosen = served.find((m) => m.name === name);
  Object.assign(state, { model: name, parts: fromDicts(chosen, chosen.start), context: {}, observed: null, edits: [] });
  state.event = isImage(chosen.shape) ? "energy" : "peak"; // nearly every image has a pixel of full brightness
  if (state.mode === "edit" && !chosen.truth) state.mode = "compose";
  setModel(name);
}

// -- files, links, token -------------------------------------------------------------------------------------------

async function download(kind) {
  try {
    if (kind === "png") saveCanvas(picture.canvas(), `${model.name}.png`);
    else save(await file(...request(), kind), `${model.name}.${kind}`);
  } catch (error) {
    complain(error);
  }
}

function askToken() {
  if (!$("ask-token").open) $("ask-token").showModal();
}

function listen() {
  $("model").addEventListener("change", () => changed(() => begin($("model").value)));
  for (const radio of document.querySelectorAll("input[name=mode]")) radio.addEventListener("change", () => changed(() => setMode(radio.value)));
  $("new-draw").addEventListener("click", () => changed(() => (state.seed = newSeed())));
  $("seed").addEventListener("change", () => {
    const seed = Number($("seed").value);
    if (Number.isSafeInteger(seed) && seed >= 0) changed(() => (state.seed = seed));
    else $("seed").value = state.seed;
  });
  $("view").addEventListener("change", () => changed(() => (state.view = $("view").value)));
  $("noise").addEventListener("change", () => changed(() => (state.noise = $("noise").checked)));
  $("example").addEventListener("change", () => {
    const chosen = model.examples[$("example").value];
    if (chosen) observe(fromDicts(model, chosen.parts), chosen.drawn);
  });
  $("redraw-truth").addEventListener("click", () => {
    observe(state.observed.parts, newSeed());
    $("example").value = -1;
  });
  $("recover").addEventListener("click", recover);
  $("undo").addEventListener("click", () => changed(() => state.edits.pop()));
  $("reset").addEventListener("click", () => changed(() => (state.edits = [])));
  $("event").addEventListener("change", () => changed(() => (state.event = $("event").value)));
  $("quantile").addEventListener("input", () => {
    state.level = Number($("quantile").value);
    refresh();
  });
  $("quantile").addEventListener("change", () => changed(() => {}));
  for (const button of document.querySelectorAll("[data-file]")) button.addEventListener("click", () => download(button.dataset.file));
  $("observed-file").addEventListener("click", async () => {
    const body = { model: model.name, context: contextIn(), parts: toDicts(model, state.observed.parts), seed: state.observed.drawn, n: 1 };
    try {
      save(await file("truth", body, "npz"), "observed.npz");
    } catch (error) {
      complain(error);
    }
  });
  $("link").addEventListener("click", () => copy(new URL(permalink(), location.href).href, $("link")));
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy($(button.dataset.copy).textContent, button, $(button.dataset.copy)));
  $("ask-token").addEventListener("close", () => {
    setToken($("token").value);
    start();
  });
  addEventListener("hashchange", () => {
    if (location.hash !== permalink() && restore(location.hash, served)) changed(() => setModel(state.model));
  });
}

async function start() {
  const fragment = location.hash;
  if (fragment.startsWith("#token=")) {
    setToken(decodeURIComponent(fragment.slice(7)));
    history.replaceState(null, "", location.pathname);
  }
  try {
    served = (await models()).models;
  } catch (error) {
    return complain(error);
  }
  $("model").replaceChildren(...served.map((m) => element("option", { value: m.name, textContent: m.name })));
  if (restore(fragment, served)) setModel(state.model);
  else begin((served.find((m) => m.name === "sines") ?? served[0]).name);
  redraw();
}

listen();
start();

// Controls of the parts: a stepper for each kind, or a row for each part that has a place; and of the context.

import { categorical, continuous, kinds, nameOf, total } from "./state.js";

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// Names of colours as the problem means them: its green is the full one.
export function paint(node, name) {
  const colour = name === "green" ? "lime" : name;
  if (CSS.supports("color", colour)) node.style.background = colour;
}

// -> update(parts): shows other counts without losing the focus
export function steppers(box, model, change) {
  const rows = kinds(model).map((kind, index) => stepper(kind, index, change));
  const long = kinds(model).some((kind) => nameOf(kind).length > 4);
  box.replaceChildren(element("div", { className: long ? "steppers long" : "steppers" }, ...rows.map((row) => row.node)));
  return (parts) => {
    const all = total(parts);
    const label = (kind) => JSON.stringify(kind);
    const counts = new Map();
    for (const p of parts) counts.set(label(p.kind), (counts.get(label(p.kind)) ?? 0) + p.count);
    rows.forEach((row, index) => row.set(counts.get(label(kinds(model)[index])) ?? 0, all));
  };
}

function stepper(kind, index, change) {
  const id = `count-${index}`;
  const name = nameOf(kind).replaceAll("_", " ");
  const input = element("input", { type: "number", id, min: 0, max: 1000000, step: 1, value: 0, inputMode: "numeric" });
  const less = element("button", { type: "button", textContent: "−", ariaLabel: `one ${name} less` });
  const more = element("button", { type: "button", textContent: "+", ariaLabel: `one ${name} more` });
  const node = element("div", { className: "stepper" }, element("label", { htmlFor: id, textContent: name, title: name }), less, input, more);
  let now = 0;
  let alone = false;
  const to = (count) => {
    const whole = Math.max(0, Math.min(1000000, Math.round(Number(count))));
    if (Number.isFinite(whole) && whole !== now && !(alone && whole === 0)) change(kind, whole - now);
    else input.value = now;
  };
  less.addEventListener("click", () => to(now - 1));
  more.addEventListener("click", () => to(now + 1));
  input.addEventListener("change", () => to(input.value));
  const set = (count, all) => {
    now = count;
    alone = all === count;
    input.value = count;
    less.disabled = count === 0 || (alone && count === 1);
    node.classList.toggle("none", count === 0);
  };
  return { node, set };
}

// A row for each part with a place; hands = {move(index, place), remove(index), add()}.
export function placedRows(box, model, parts, hands) {
  const old = document.activeElement?.id;
  const rows = parts.map((part, index) => {
    const swatch = element("span", { className: "swatch" });
    paint(swatch, nameOf(part.kind));
    const inputs = continuous(model).map((a) => {
      const input = element("input", {
        type: "number", id: `place-${part.key}-${a.name}`, min: a.low, max: a.high, step: 0.05, value: round(part.place[a.name]),
        ariaLabel: `${a.name} of ${nameOf(part.kind)} part ${index + 1}`, title: `${a.name} ${a.unit}`,
      });
      input.addEventListener("change", () => {
        const value = Math.max(a.low, Math.min(a.high, Number(input.value)));
        if (Number.isFinite(value)) hands.move(index, { ...part.place, [a.name]: value });
      });
      return input;
    });
    const gone = element("button", { type: "button", textContent: "×", id: `gone-${part.key}`, disabled: parts.length === 1 });
    gone.ariaLabel = `remove ${nameOf(part.kind)} part ${index + 1}`;
    gone.addEventListener("click", () => hands.remove(index));
    return element("div", { className: "site-row" }, swatch, element("span", { className: "name", textContent: nameOf(part.kind) }), ...inputs, gone);
  });
  const add = element("button", { type: "button", id: "add-part", textContent: "Add a part" });
  add.addEventListener("click", () => hands.add());
  box.replaceChildren(...rows, add);
  if (old) (document.getElementById(old) ?? (old.startsWith("gone-") ? add : null))?.focus();
}

export const round = (value) => Math.round(value * 1000) / 1000;

// Which kind the next part has.
export function palette(box, model, choose) {
  const all = kinds(model);
  box.hidden = model.countable || !categorical(model).length;
  box.replaceChildren(
    ...all.map((kind, index) => {
      const input = element("input", { type: "radio", name: "kind", value: index, checked: index === 0 });
      input.addEventListener("change", () => choose(kind));
      const swatch = element("span", { className: "swatch" });
      paint(swatch, nameOf(kind));
      return element("label", {}, input, swatch, nameOf(kind));
    }),
  );
  choose(all[0]);
}

// A slider or a list for each covariate, each with "unknown".
export function covariates(box, model, context, change) {
  box.replaceChildren(...model.context.map((a) => (a.type === "categorical" ? choice(a, context, change) : slider(a, context, change))));
}

const spoken = (a) => a.name.replaceAll("_", " ") + (a.unit ? ` (${a.unit})` : "");

function choice(a, context, change) {
  const id = `context-${a.name}`;
  const options = ["unknown", ...a.categories].map((c, index) => element("option", { value: index ? c : "", textContent: c }));
  const select = element("select", { id }, ...options);
  select.value = context[a.name] ?? "";
  select.addEventListener("change", () => change(a.name, select.value || null));
  return element("div", { className: "covariate row" }, element("label", { htmlFor: id, textContent: spoken(a) }), select);
}

function slider(a, context, change) {
  const id = `context-${a.name}`;
  const known = element("input", { type: "checkbox", id: `${id}-known`, checked: a.name in context });
  const middle = Math.round((a.low + a.high) / 2);
  const range = element("input", { type: "range", id, min: a.low, max: a.high, step: (a.high - a.low) / 100, value: context[a.name] ?? middle });
  const shown = element("output", { htmlFor: id });
  const tell = () => {
    range.disabled = !known.checked;
    shown.value = known.checked ? round(Number(range.value)) : "unknown";
    range.ariaValueText = `${shown.value} ${known.checked ? a.unit : ""}`.trim();
  };
  const update = () => {
    tell();
    change(a.name, known.checked ? Number(range.value) : null);
  };
  range.addEventListener("input", update);
  known.addEventListener("change", update);
  tell();
  return element("div", { className: "covariate" },
    element("div", { className: "row" }, element("label", { htmlFor: id, textContent: spoken(a) }), shown,
      element("label", { className: "check" }, known, "known")),
    range);
}

// Wholes that are images: one large with the parts standing on it, the other draws beside it as small ones.

import { element, paint, round } from "./parts.js";
import { continuous, nameOf } from "./state.js";

export const isImage = (shape) => (shape.length === 3 && [1, 3].includes(shape[0])) || shape.length === 2;

// values: (channels, height, width) in [0, 1]
export function drawImage(canvas, shape, values) {
  const [channels, height, width] = shape.length === 2 ? [1, ...shape] : shape;
  Object.assign(canvas, { width, height });
  const image = new ImageData(width, height);
  const size = width * height;
  for (let p = 0; p < size; p++) {
    for (let c = 0; c < 3; c++) image.data[4 * p + c] = 255 * values[(channels === 3 ? c : 0) * size + p];
    image.data[4 * p + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// Standard deviation over the draws, stretched to [0, 1].
function deviation(rows) {
  const out = new Float32Array(rows[0].length);
  let most = 1e-6;
  for (let p = 0; p < out.length; p++) {
    let sum = 0, square = 0;
    for (const row of rows) (sum += row[p]), (square += row[p] * row[p]);
    out[p] = Math.sqrt(Math.max(0, square / rows.length - (sum / rows.length) ** 2));
    most = Math.max(most, out[p]);
  }
  return { values: out.map((v) => v / most), most };
}

export class ImagePicture {
  // hands = {move(index, place, done), remove(index), add(place)}
  constructor(box, model, hands) {
    Object.assign(this, { box, model, hands, axes: continuous(model), buttons: [] });
    this.main = element("canvas");
    this.stage = element("div", { className: "stage" }, this.main);
    this.thumbs = element("div", { className: "thumbs" });
    box.replaceChildren(this.stage, this.thumbs);
    if (this.axes.length === 2) this.main.addEventListener("click", (event) => hands.add(this.placeAt(event)));
    this.main.setAttribute("role", "img");
  }

  placeAt(event) {
    const frame = this.stage.getBoundingClientRect();
    const share = [(event.clientX - frame.left) / frame.width, (event.clientY - frame.top) / frame.height];
    return Object.fromEntries(this.axes.map((a, i) => [a.name, round(a.low + Math.max(0, Math.min(1, share[i])) * (a.high - a.low))]));
  }

  // what: {image, small: [{values, text}], rows: draws, parts}
  show({ image, small, rows, parts }) {
    drawImage(this.main, this.model.shape, image);
    this.main.setAttribute("aria-label", `image of ${parts.length} parts: ${parts.map((p) => nameOf(p.kind)).join(", ")}`);
    const figures = [...small];
    if (rows.length > 1) {
      const { values, most } = deviation(rows);
      figures.push(...rows.slice(small.length ? 0 : 1).map((r, i) => ({ values: r, text: `draw ${i + (small.length ? 1 : 2)}` })));
      figures.push({ values, text: `deviation, up to ${Number(most.toPrecision(1))}` });
    }
    while (this.thumbs.children.length > figures.length) this.thumbs.lastChild.remove();
    figures.forEach(({ values, text }, i) => {
      const figure = this.thumbs.children[i] ?? this.thumbs.appendChild(element("figure", {}, element("canvas"), element("figcaption")));
      drawImage(figure.firstChild, this.model.shape, values);
      figure.lastChild.textContent = text;
    });
    this.place(parts);
  }

  place(parts) {
    if (this.axes.length !== 2) return;
    while (this.buttons.length > parts.length) {
      const last = this.buttons.pop();
      if (last === document.activeElement) this.buttons.at(-1)?.focus();
      last.remove();
    }
    parts.forEach((part, index) => {
      const button = this.buttons[index] ?? this.site(index);
      this.stand(button, part.place);
      paint(button, nameOf(part.kind));
      const where = this.axes.map((a) => `${a.name} ${round(part.place[a.name])}`).join(", ");
      button.ariaLabel = `${nameOf(part.kind)} at ${where}; arrow keys move it, Delete removes it`;
      button.shown = part;
    });
  }

  stand(button, place) {
    const [left, top] = this.axes.map((a) => (100 * (place[a.name] - a.low)) / (a.high - a.low));
    Object.assign(button.style, { left: `${left}%`, top: `${top}%` });
  }

  site(index) {
    const button = element("button", { type: "button", className: "site" });
    let held = null; // where it was taken, and from its middle to the pointer: it shall not jump, nor move by a mere click
    const to = (event) => this.placeAt({ clientX: event.clientX - held.dx, clientY: event.clientY - held.dy });
    button.addEventListener("pointerdown", (event) => {
      const { left, top, width, height } = button.getBoundingClientRect();
      held = { x: event.clientX, y: event.clientY, dx: event.clientX - left - width / 2, dy: event.clientY - top - height / 2, moved: false };
      button.setPointerCapture(event.pointerId);
    });
    button.addEventListener("pointermove", (event) => {
      if (!held) return;
      held.moved ||= Math.hypot(event.clientX - held.x, event.clientY - held.y) > 3;
      if (!held.moved) return;
      this.stand(button, to(event));
      this.hands.move(index, to(event), false);
    });
    button.addEventListener("pointerup", (event) => {
      if (held?.moved) this.hands.move(index, to(event), true);
      held = null;
    });
    button.addEventListener("pointercancel", () => (held = null));
    button.addEventListener("keydown", (event) => this.key(event, index, button.shown));
    this.buttons.push(button);
    this.stage.append(button);
    return button;
  }

  key(event, index, part) {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, -1], ArrowDown: [1, 1] }[event.key];
    if (event.key === "Delete" || event.key === "Backspace") this.hands.remove(index);
    else if (steps) {
      const a = this.axes[steps[0]];
      const value = part.place[a.name] + (steps[1] * (a.high - a.low)) / 40;
      this.hands.move(index, { ...part.place, [a.name]: round(Math.max(a.low, Math.min(a.high, value))) }, true);
    } else return;
    event.preventDefault();
  }

  canvas() {
    const big = element("canvas", { width: 512, height: 512 });
    const context = big.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(this.main, 0, 0, 512, 512);
    return big;
  }

  destroy() {
    this.box.replaceChildren();
  }
}

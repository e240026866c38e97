// Wholes that are curves: a fan of quantiles or the realisations themselves, and single curves on top (uPlot).

const LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95];

// The quantiles of rows at each place: LEVELS.length arrays.
function quantiles(rows) {
  const length = rows[0].length;
  const out = LEVELS.map(() => new Float64Array(length));
  const column = new Float64Array(rows.length);
  for (let t = 0; t < length; t++) {
    for (let r = 0; r < rows.length; r++) column[r] = rows[r][t];
    column.sort();
    LEVELS.forEach((level, i) => {
      const at = level * (rows.length - 1);
      const low = Math.floor(at);
      out[i][t] = column[low] + (at - low) * ((column[low + 1] ?? column[low]) - column[low]);
    });
  }
  return out;
}

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class CurvePicture {
  constructor(box, model) {
    Object.assign(this, { box, model, plot: null, form: "" });
    const day = model.unit === "kW" && model.shape.length === 1;
    const length = model.shape.reduce((a, b) => a * b, 1);
    this.xs = Float64Array.from({ length }, (_, i) => (day ? (24 * (i + 0.5)) / length : i));
    this.label = day ? "hour" : "place";
    this.watch = new ResizeObserver(() => this.plot?.setSize(this.size()));
    this.watch.observe(box);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.repaint = () => this.last && ((this.form = ""), this.show(this.last));
    this.dark.addEventListener("change", this.repaint);
    box.replaceChildren();
    box.parentElement.classList.add("curve");
  }

  size() {
    return { width: Math.max(200, this.box.clientWidth), height: innerWidth < 832 ? 190 : 340 };
  }

  // what: {rows: draws, view: "fan" or "draws", lines: [{values, className}]}, the first of the draws on top of a fan
  show(what) {
    this.last = what;
    const { series, data, bands } = what.rows.length && what.view === "fan" ? this.fan(what.rows) : this.each(what.rows);
    for (const line of what.lines) {
      series.push({ stroke: style(line.className === "second" ? "--second" : "--third"), width: 2, dash: line.dash, points: { show: false } });
      data.push(line.values);
    }
    const form = JSON.stringify([what.view, what.rows.length, what.lines.map((l) => l.className)]);
    if (form === this.form) {
      this.plot.setData([this.xs, ...data]);
    } else {
      this.plot?.destroy();
      this.form = form;
      this.plot = new uPlot(this.options(series, bands), [this.xs, ...data], this.box);
    }
    this.box.setAttribute("role", "img");
    this.box.setAttribute("aria-label", this.spoken(what));
  }

  fan(rows) {
    const colour = style("--fan");
    const edge = { stroke: `rgba(${colour},0)`, width: 0, points: { show: false } };
    const series = [edge, edge, { stroke: `rgb(${colour})`, width: 1, dash: [4, 4], points: { show: false } }, edge, edge];
    series.push({ stroke: `rgb(${colour})`, width: 2, points: { show: false } });
    const bands = [
      { series: [5, 1], fill: `rgba(${colour},0.15)` },
      { series: [4, 2], fill: `rgba(${colour},0.25)` },
    ];
    return { series, data: [...quantiles(rows), rows[0]], bands };
  }

  each(rows) {
    const colour = style("--fan");
    const series = rows.map((_, r) => ({ stroke: r ? `rgba(${colour},0.22)` : `rgb(${colour})`, width: r ? 1 : 2, points: { show: false } }));
    return { series: [...series.slice(1), ...series.slice(0, 1)], data: [...rows.slice(1), ...rows.slice(0, 1)], bands: [] };
  }

  options(series, bands) {
    const axis = { stroke: style("--soft"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line") } };
    const font = "12px system-ui, sans-serif";
    return {
      ...this.size(), bands, series: [{}, ...series], legend: { show: false }, cursor: { show: false },
      scales: { x: { time: false } },
      axes: [
        { ...axis, font, labelFont: font, label: this.label, labelSize: 18 },
        { ...axis, font, labelFont: font, size: 46, label: this.model.unit || undefined, labelSize: 16 },
      ],
    };
  }

  spoken({ rows, lines }) {
    const curves = [...rows, ...lines.map((l) => l.values)];
    if (!curves.length) return "empty";
    const low = Math.min(...curves.map((r) => Math.min(...r)));
    const high = Math.max(...curves.map((r) => Math.max(...r)));
    return `${rows.length} draws of a curve of ${this.xs.length} places, between ${low.toPrecision(3)} and ${high.toPrecision(3)} ${this.model.unit}`;
  }

  canvas() {
    return this.plot?.ctx.canvas;
  }

  destroy() {
    this.watch.disconnect();
    this.dark.removeEventListener("change", this.repaint);
    this.plot?.destroy();
    for (const name of ["role", "aria-label"]) this.box.removeAttribute(name);
    this.box.parentElement.classList.remove("curve");
  }
}

// A small curve on a canvas of its own.
export function spark(canvas, values) {
  const scale = devicePixelRatio || 1;
  const [w, h] = [180 * scale, 72 * scale];
  Object.assign(canvas, { width: w, height: h });
  const context = canvas.getContext("2d");
  const low = Math.min(...values), high = Math.max(...values), span = high - low || 1;
  context.strokeStyle = `rgb(${style("--fan")})`;
  context.lineWidth = 1.5 * scale;
  context.beginPath();
  values.forEach((v, i) => context.lineTo((i / (values.length - 1)) * w, h * (0.95 - (0.9 * (v - low)) / span)));
  context.stroke();
}

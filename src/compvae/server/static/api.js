// Requests to the server this page came from: JSON out, float32 arrays in.  The latest request of a kind wins.

let token = sessionStorage.getItem("compvae-token") ?? "";

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function setToken(text) {
  token = text;
  sessionStorage.setItem("compvae-token", text);
}

const headers = (more = {}) => (token ? { ...more, authorization: `Bearer ${token}` } : more);

async function checked(response) {
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  throw new Refusal(response.status, told.error ?? `the server answered ${response.status}`);
}

export async function models() {
  return (await checked(await fetch("/api/models", { headers: headers() }))).json();
}

export async function ask(name, body) {
  const response = await post(name, { ...body, encoding: "base64" });
  return unpacked(await response.json());
}

export async function file(name, body, encoding) {
  return (await post(name, { ...body, encoding })).blob();
}

async function post(name, body) {
  const options = { method: "POST", headers: headers({ "content-type": "application/json" }), body: JSON.stringify(body) };
  return checked(await fetch(`/api/${name}`, options));
}

function unpacked(answer) {
  for (const [name, value] of Object.entries(answer)) {
    if (value && typeof value === "object" && "base64" in value) answer[name] = array(value);
  }
  return answer;
}

// {shape, rows: one Float32Array for each entry of the first axis, values: all of them}
function array({ shape, base64 }) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const values = new Float32Array(bytes.buffer);
  const size = shape.slice(1).reduce((a, b) => a * b, 1);
  const rows = Array.from({ length: shape[0] }, (_, r) => values.subarray(r * size, (r + 1) * size));
  return { shape, values, rows };
}

// Runs one task at a time; while one runs, only the last of those asked for meanwhile is kept.
export class Latest {
  running = false;
  next = null;

  async run(task) {
    this.next = task;
    if (this.running) return;
    this.running = true;
    try {
      while (this.next) {
        const now = this.next;
        this.next = null;
        await now();
      }
    } finally {
      this.running = false;
    }
  }
}

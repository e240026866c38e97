"""The server under load: throughput and p99 beside an empty endpoint, memory, the redraw in a browser, 10,000 requests
made from its description.

    python benchmarks/server.py                 # all of it, about 15 minutes on two cores
    python benchmarks/server.py --only wrk,redraw

wrk (Debian) and /usr/bin/chromium are needed.  One JSON document on stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

ROOT = Path(__file__).parent.parent
BODY = json.dumps(
    {
        "model": "sines",
        "parts": {"3": 2, "7": 1},
        "n": 32,
        "seed": 1,
        "by_part": True,
        "noise": False,
        "encoding": "base64",
    }
)
SCRIPT = f'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\nwrk.body = [[{BODY}]]\n'
EMPTY = """
import uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.post("/api/sample")
async def nothing() -> dict[str, str]:
    return {}
@app.get("/healthz")
async def healthz() -> dict[str, str]:
    return {}
uvicorn.run(app, port=%d, log_level="error", access_log=False)
"""


@contextmanager
def serving(port: int, command: list[str]) -> Iterator[int]:
    """A server of another process, until the block ends; its process id."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5)
                break
            except OSError:
                time.sleep(0.2)
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=30)


def ours(port: int) -> list[str]:
    return [sys.executable, "-m", "compvae", "serve", "sines", "colours", "--port", str(port), "--no-browser"]


def memory_mb(pid: int) -> float:
    """Resident memory."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", text)[0]) / 1024


def wrk(port: int, clients: int, seconds: int) -> dict[str, float]:
    """Requests a second, latencies in ms, and answers that were not 2xx."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT)
        script.flush()
        command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "20s", "--latency", "-s", script.name]
        found = subprocess.run(
            [*command, f"http://127.0.0.1:{port}/api/sample"], capture_output=True, text=True, check=True
        )
    units = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}
    latency = {
        level: float(value) * units[unit]
        for level, value, unit in re.findall(r"(\d+)%\s+([\d.]+)(us|ms|s|m)\b", found.stdout)
    }
    refused = re.findall(r"Non-2xx or 3xx responses: (\d+)", found.stdout)
    rate = float(re.findall(r"Requests/sec:\s+([\d.]+)", found.stdout)[0])
    total = int(re.findall(r"(\d+) requests in", found.stdout)[0])
    return {
        "requests_s": rate, "p50_ms": latency["50"], "p99_ms": latency["99"], "requests": total,
        "not_2xx": int(refused[0]) if refused else 0,
    }  # fmt: skip


def beside_empty(seconds: int) -> dict[str, Any]:
    """The same client against our sampling and against an endpoint that does nothing."""
    found: dict[str, Any] = {}
    with serving(8971, ours(8971)), serving(8972, [sys.executable, "-c", EMPTY % 8972]):
        wrk(8971, 8, 2)
        for clients in (1, 8):
            found[f"{clients} clients"] = {"ours": wrk(8971, clients, seconds), "empty": wrk(8972, clients, seconds)}
    for row in found.values():
        row["throughput_ratio"] = row["ours"]["requests_s"] / row["empty"]["requests_s"]
        row["p99_ratio"] = row["ours"]["p99_ms"] / row["empty"]["p99_ms"]
    return found


def crowd(seconds: int) -> dict[str, Any]:
    """128 clients: who was served, and what it left in memory."""
    with serving(8973, ours(8973)) as pid:
        wrk(8973, 128, 10)  # what is allocated once
        before = memory_mb(pid)
        found: dict[str, Any] = dict(wrk(8973, 128, seconds))
        after = memory_mb(pid)
        alive = urllib.request.urlopen("http://127.0.0.1:8973/healthz", timeout=10).status == 200
        metrics = urllib.request.urlopen("http://127.0.0.1:8973/metrics", timeout=10).read().decode()
    counts = dict(re.findall(r'compvae_(jobs|runs)_total\{lane="sample"\} (\S+)', metrics))
    statuses = {s: int(n) for s, n in re.findall(r'requests_total\{path="/api/sample",status="(\d+)"\} (\d+)', metrics)}
    growth = after / before - 1
    return {
        **found, "memory_mb": [before, after], "growth": growth, "alive": alive, "statuses": statuses,
        "jobs_a_run": float(counts["jobs"]) / float(counts["runs"]),
    }  # fmt: skip


def redraw(clicks: int) -> dict[str, Any]:
    """From a click on a stepper of the sines page to the picture, in the browser."""
    from playwright.sync_api import sync_playwright

    with serving(8974, ours(8974)), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 850})
        page.goto("http://127.0.0.1:8974/")
        page.wait_for_selector("body[data-drawn]")
        for click in range(clicks + 5):
            before = page.get_attribute("body", "data-drawn")
            page.click(f"[aria-label='one {click % 10 + 1} more']")
            while page.get_attribute("body", "data-drawn") == before:
                page.wait_for_timeout(10)
        entries = page.evaluate("performance.getEntriesByName('redraw').map(e => [e.duration, e.detail])")[5:]
        browser.close()
    took, model = [row[0] for row in entries], [row[1] for row in entries]
    return {
        "clicks": len(took), "median_ms": median(took), "p90_ms": quantiles(took, n=10)[-1],
        "model_median_ms": median(model), "model_share": median(m / t for m, t in zip(model, took, strict=True)),
    }  # fmt: skip


def described(cases: int) -> dict[str, Any]:
    """Requests made from the API's description: how many, with which answers."""
    with tempfile.TemporaryDirectory() as place:
        tally = Path(place) / "tally"
        environment = {**os.environ, "COMPVAE_SCHEMA_CASES": str(cases), "COMPVAE_SCHEMA_TALLY": str(tally)}
        command = [sys.executable, "-m", "pytest", "-q", str(ROOT / "tests" / "test_server_schema.py")]
        code = subprocess.run(command, env=environment, cwd=ROOT, check=False, stdout=sys.stderr).returncode
        lines = tally.read_text().splitlines()
    counts: dict[str, int] = {}
    for line in lines:
        for status, number in re.findall(r"(\d{3}): (\d+)", line):
            counts[status] = counts.get(status, 0) + int(number)
    return {"passed": code == 0, "cases": sum(counts.values()), "statuses": counts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="wrk,crowd,redraw,schema", help="which, separated by commas")
    parser.add_argument("--seconds", type=int, default=60, help="of the crowd; other runs take a sixth of it")
    parser.add_argument("--cases", type=int, default=10_500, help="96 of 100 are sent: a GET cannot be wrong")
    chosen = parser.parse_args()
    parts = {
        "wrk": lambda: beside_empty(max(2, chosen.seconds // 6)),
        "crowd": lambda: crowd(chosen.seconds),
        "redraw": lambda: redraw(60),
        "schema": lambda: described(chosen.cases),
    }
    found: dict[str, Any] = {"load_average_before": os.getloadavg()[0]}
    for name in chosen.only.split(","):
        found[name] = parts[name]()
        print(name, json.dumps(found[name]), file=sys.stderr)
    found["load_average_after"] = os.getloadavg()[0]
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

"""Does an acknowledged append survive? Run as `python -m tests.crash.simulator MODE --append CMD --read CMD`.

The program under test is two command templates:

- `--append` reads JSON lines `{"id", "text"}` from stdin, stores each in order, and prints `ACK <id>`, flushed, once it
  promises to keep the message, or `ERR <id> why`.
- `--read` prints every stored message in stored order as a JSON line `{"id", "text"}`, and exits 0.

`{dir}` is the store's folder, `{writer}` the writer's number, `{python}` this interpreter.

- `kill` kills the writers with SIGKILL at a random moment, reopens and checks. Each round continues the last one.
- `power` runs the writers under the shim, rebuilds the folder as a power cut could have left it at many moments of the
  run, and checks each. Each round starts from one of those images.
- `sweep` fails the 1st, 2nd, 3rd … write, sync or other call, and checks that nothing acknowledged is lost.

At each check: the read command exits 0; every acknowledged id is there once, whole, in its writer's order; and nothing
that was never sent. Exit code 0 if every promise was kept, 1 if one was broken, 2 if nothing was tested.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.simulator.shim import environment
from tests.crash.simulator.volume import Volume, read_log


@dataclass
class Ledger:
    """What was sent and what was promised, by writer."""

    sent: dict[str, list[str]] = field(default_factory=dict)
    text: dict[str, str] = field(default_factory=dict)
    acked: set[str] = field(default_factory=set)

    def message(self, writer: int, rng: random.Random, size: int) -> str:
        key = f"w{writer}"
        ident = f"{key}-{len(self.sent.setdefault(key, [])):06d}"
        body = "".join(rng.choices('abcdefghijklmnopqrstuvwxyz é漢😀\n"\\', k=rng.randint(1, size)))
        self.sent[key].append(ident)
        self.text[ident] = f"{ident} {body}"
        return ident


@dataclass
class Run:
    acked: list[str]
    code: int | None
    stderr: str
    failed: list[str]


def command(template: str, store: Path, writer: int = 0) -> list[str]:
    fields = {"{dir}": str(store), "{writer}": str(writer), "{python}": sys.executable}
    words = shlex.split(template)
    for mark, value in fields.items():
        words = [w.replace(mark, value) for w in words]
    return words


class Writer(threading.Thread):
    """One append process: feeds it messages and collects its acknowledgements."""

    def __init__(self, args, store: Path, number: int, lines: list[tuple[str, str]], env: dict[str, str]):
        super().__init__(daemon=True)
        self.lines = lines
        self.acked: list[str] = []
        self.failed: list[str] = []
        self.stderr = tempfile.TemporaryFile()
        self.proc = subprocess.Popen(
            command(args.append, store, number),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            env=env,
            start_new_session=True,
        )

    def feed(self) -> None:
        assert self.proc.stdin is not None
        try:
            for ident, text in self.lines:
                self.proc.stdin.write((json.dumps({"id": ident, "text": text}) + "\n").encode())
                self.proc.stdin.flush()
            self.proc.stdin.close()
        except (BrokenPipeError, ValueError, OSError):
            pass

    def run(self) -> None:
        threading.Thread(target=self.feed, daemon=True).start()
        assert self.proc.stdout is not None
        for line in self.proc.stdout:
            if not line.endswith(b"\n"):
                break
            word, _, rest = line.decode(errors="replace").strip().partition(" ")
            if word == "ACK":
                self.acked.append(rest)
            elif word == "ERR":
                self.failed.append(rest)

    def kill(self) -> None:
        try:
            os.killpg(self.proc.pid, signal.SIGKILL)  # a session this harness started
        except ProcessLookupError:
            pass

    def result(self) -> Run:
        self.proc.wait()
        self.join(10)
        self.stderr.seek(0)
        return Run(self.acked, self.proc.returncode, self.stderr.read().decode(errors="replace"), self.failed)


def run_writers(
    args, store: Path, ledger: Ledger, rng: random.Random, extra_env: dict[str, str], kill: bool, count: int, least=0
) -> list[Run]:
    """Runs the writers to their end; with `kill`, until a random number of acknowledgements, but at least so many."""
    env = {**os.environ, **extra_env}
    writers = []
    for number in range(args.writers):
        lines = [(i, ledger.text[i]) for i in (ledger.message(number, rng, args.size) for _ in range(count))]
        writers.append(Writer(args, store, number, lines, env))
    for w in writers:
        w.start()
    if kill:
        goal, limit = rng.randint(least, count * args.writers), time.monotonic() + args.timeout
        while time.monotonic() < limit and any(w.proc.poll() is None for w in writers):
            if sum(len(w.acked) for w in writers) >= goal:
                break
            time.sleep(0.0005)
        time.sleep(rng.random() * 0.004)
        for w in writers:
            w.kill()
    else:
        limit = time.monotonic() + args.timeout
        while time.monotonic() < limit and any(w.proc.poll() is None for w in writers):
            time.sleep(0.005)
        for w in writers:
            if w.proc.poll() is None:
                w.failed.append("hung")
                w.kill()
    return [w.result() for w in writers]


def check(args, store: Path, ledger: Ledger, acked: set[str]) -> list[str]:
    """Every broken promise found in `store`, as text; an empty list is a pass."""
    try:
        out = subprocess.run(command(args.read, store), capture_output=True, timeout=args.timeout)
    except subprocess.TimeoutExpired:
        return ["read: timed out"]
    if out.returncode:
        tail = out.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return [f"read: exit {out.returncode}: {' '.join(tail)}"] if acked else []
    faults: list[str] = []
    seen: dict[str, int] = {}
    for pos, line in enumerate(out.stdout.splitlines()):
        try:
            item = json.loads(line)
            ident, text = item["id"], item["text"]
        except (ValueError, KeyError, TypeError):
            faults.append(f"read: unparsable line {pos}")
            continue
        if ident not in ledger.text:
            faults.append(f"phantom: {ident!r} was never sent")
        elif text != ledger.text[ident]:
            faults.append(f"corrupt: {ident}")
        elif ident in seen:
            faults.append(f"duplicate: {ident}")
        seen.setdefault(ident, pos)
    lost = sorted(acked - seen.keys())
    if lost:
        faults.append(f"lost: {len(lost)} acknowledged, first {lost[0]}, last {lost[-1]}")
    for key, sent in ledger.sent.items():
        order = [seen[i] for i in sent if i in seen]
        if order != sorted(order):
            faults.append(f"order: {key} out of order")
        present = [i in seen for i in sent if i in acked or i in seen]
        if not lost and not all(present):
            faults.append(f"hole: {key}")
    return faults


@dataclass
class Report:
    mode: str
    checks: int = 0
    acked: int = 0
    failures: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    worst_lost: int = 0
    examples: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    def add(self, where: str, faults: list[str]) -> None:
        self.checks += 1
        if not faults:
            return
        self.failures += 1
        for kind in {f.split(":")[0] for f in faults}:
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
        for f in faults:
            if f.startswith("lost: "):
                self.worst_lost = max(self.worst_lost, int(f.split()[1]))
        if len(self.examples) < 5:
            self.examples.append(f"{where}: {'; '.join(faults[:3])}")


class AckStream:
    """Acknowledgements in a log: a line may come in several writes, so it is put together per process."""

    def __init__(self):
        self.partial: dict[int, bytes] = {}

    def feed(self, event) -> list[str]:
        *lines, rest = (self.partial.get(event.pid, b"") + event.b).split(b"\n")
        self.partial[event.pid] = rest
        return [line[4:].decode() for line in lines if line.startswith(b"ACK ")]


def mode_kill(args, base: Path, rng: random.Random) -> Report:
    report, ledger = Report("kill"), Ledger()
    store = base / "store"
    store.mkdir()
    for round_ in range(args.rounds):
        for run in run_writers(args, store, ledger, rng, {}, True, args.messages):
            ledger.acked.update(run.acked)
        report.add(f"round {round_}", check(args, store, ledger, ledger.acked))
    report.acked = len(ledger.acked)
    return report


def mode_power(args, base: Path, rng: random.Random) -> Report:
    report, ledger = Report("power"), Ledger()
    report.notes = {"meta": args.meta, "survive": args.survive, "sync_calls": 0, "log_bytes": 0}
    work = base / "store"
    work.mkdir()
    modes = args.survive.split(",")
    mapped: set[str] = set()
    for round_ in range(args.rounds):
        log = base / f"log{round_}"
        volume = Volume(work, args.meta)
        before = set(ledger.acked)
        # A writer that was killed before it wrote anything would leave no moment to check.
        runs = run_writers(args, work, ledger, rng, environment(work, log), True, args.messages, least=1)
        delivered = {i for run in runs for i in run.acked}
        events = list(read_log(log))
        report.notes["log_bytes"] += log.stat().st_size if log.exists() else 0
        report.notes["sync_calls"] += sum(e.kind == "S" for e in events)
        ack_points = [n for n, e in enumerate(events, 1) if e.kind == "A" and e.b.endswith(b"\n")]
        write_points = [n for n, e in enumerate(events, 1) if e.kind == "W"]
        torn = set(rng.sample(write_points, min(len(write_points), args.points // 4)))
        points = {len(events)} | torn | set(rng.sample(ack_points, min(len(ack_points), args.points // 2)))
        others = sorted(set(range(1, len(events) + 1)) - points)  # so that each round checks as many as were asked for
        points |= set(rng.sample(others, min(len(others), max(0, args.points - len(points)))))
        chain = rng.choice(sorted(torn or points))  # the round after goes on from what this moment left
        acked, stream = set(before), AckStream()
        for n, event in enumerate(events, 1):
            volume.feed(event)
            if event.kind == "A":
                acked.update(stream.feed(event))
            if n not in points:
                continue
            need = acked | delivered if n == len(events) else set(acked)
            for mode in modes:
                image = base / "image"
                volume.crash_image(image, mode, rng)
                report.add(f"round {round_} event {n}/{len(events)} survive={mode}", check(args, image, ledger, need))
                shutil.rmtree(image)
            if n == chain:
                volume.crash_image(base / "next", "random" if "random" in modes else modes[0], rng)
                ledger.acked = need
        report.acked += len((acked | delivered) - before)
        mapped |= volume.mapped
        shutil.rmtree(work)
        if not (base / "next").exists():
            (base / "next").mkdir()
        # `check` opens a copy: the next round's writer must meet the unrecovered state itself
        shutil.copytree(base / "next", base / "image", symlinks=True)
        faults = check(args, base / "image", ledger, ledger.acked)
        shutil.rmtree(base / "image")
        (base / "next").rename(work)
        if faults:  # reported above; start afresh so that one loss is not counted in every later round
            shutil.rmtree(work)
            work.mkdir()
            ledger = Ledger()
    report.notes["shared_mappings"] = sorted({os.path.basename(m) for m in mapped})
    return report


def mode_sweep(args, base: Path, rng: random.Random) -> Report:
    report = Report("sweep")
    quiet = 0
    report.notes = {"fault": f"{args.op},{args.errno}" + (",sticky" if args.sticky else ""), "silent": 0, "hung": 0}
    nth = 1
    while nth <= args.max_nth:
        work, log = base / f"s{nth}", base / f"slog{nth}"
        work.mkdir()
        ledger = Ledger()
        fault = f"{args.op},{args.errno},{nth}" + (",sticky" if args.sticky else "")
        runs = run_writers(args, work, ledger, rng, environment(work, log, fault), False, args.messages)
        ledger.acked = {i for run in runs for i in run.acked}
        fired = any(e.kind == "!" for e in read_log(log))
        if not fired:
            quiet += 1
            if quiet >= 2:
                break
            nth += args.step
            continue
        faults = check(args, work, ledger, ledger.acked)
        if any("hung" in r.failed for r in runs):
            report.notes["hung"] += 1
            faults.append("hung: writer did not end")
        told = any(r.code or r.failed for r in runs) or len(ledger.acked) == len(ledger.text)
        if not told:
            report.notes["silent"] += 1
            faults.append("silent: exit 0 without an ACK or ERR for each message")
        report.add(f"{fault}", faults)
        report.acked += len(ledger.acked)
        shutil.rmtree(work)
        nth += args.step
    report.notes["calls_swept"] = nth - 1
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.simulator")
    parser.add_argument("mode", choices=["kill", "power", "sweep"])
    parser.add_argument("--append", required=True)
    parser.add_argument("--read", required=True)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--writers", type=int, default=1)
    parser.add_argument("--messages", type=int, default=60, help="messages a writer and round")
    parser.add_argument("--size", type=int, default=6000, help="longest message, characters")
    parser.add_argument("--points", type=int, default=24, help="power: moments checked a round")
    parser.add_argument("--survive", default="none,prefix,random", help="power: none,prefix,random,all")
    parser.add_argument("--meta", choices=["journaled", "strict"], default="journaled")
    parser.add_argument("--op", default="write", help="sweep: write sync open rename unlink truncate")
    parser.add_argument("--errno", default="EIO", help="sweep: EIO ENOSPC EDQUOT EROFS EMFILE SHORT")
    parser.add_argument("--sticky", action="store_true", help="sweep: every later call fails too")
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--max-nth", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--keep", help="work here and leave it, instead of a temporary directory")
    args = parser.parse_args()
    base = Path(args.keep or tempfile.mkdtemp(prefix="crash-")).resolve()
    base.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    try:
        report = {"kill": mode_kill, "power": mode_power, "sweep": mode_sweep}[args.mode](
            args, base, random.Random(args.seed)
        )
    finally:
        if not args.keep:
            shutil.rmtree(base, ignore_errors=True)
    summary = {**vars(report), "seconds": round(time.monotonic() - began, 1), "seed": args.seed}
    print(json.dumps(summary, indent=1, ensure_ascii=False))
    print(f"{report.checks - report.failures} passed, {report.failures} failed")
    if not report.checks or not report.acked:
        print("nothing was acknowledged, so nothing was tested", file=sys.stderr)
        return 2
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

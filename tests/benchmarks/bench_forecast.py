"""What a plan on a made-up shape says and what then comes out; and what counts cost the items beside them.

    python tests/benchmarks/bench_forecast.py [--logs gowalla nyc tky times mine.parquet zipf:1.1,300,2000,10]
        [--k 10 100] [--epsilon 0.5 1 4] [--draws 20] [--exponent 1] [--user user_id] [--item item_id] [--counts]

Logs as for bench_recall.py. The first table: a plan on `zipf:EXPONENT` that is told a log's number of items and users and its
mean of items per user; the range that it forecasts, their mean, and what its mechanism finds in the log. `above`: by how much the
mean is above that. `--counts`: recall of `dpselect.topk` without and with counts, their ratio, half the width of the 95 %
interval, and the root mean square by which counts are off.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from bench_recall import Cell, planned
from recall_logs import Log, load

import accounting as acc
import dpselect as dps
from dpselect.plan import Profile
from dpselect.plan.ask_plan import plan


def guessed(log: Log, exponent: float) -> Profile:
    """What somebody states who knows how many items and users there are, and how many items a user has on average."""
    return Profile.zipf(exponent, log.size, log.people, items_per_user=round(len(log.users) / log.people, 1))


def forecasts(logs: list[Log], options: argparse.Namespace) -> Iterator[tuple[float, str]]:
    """How far each plan's mean is above what its mechanism finds, and the line."""
    for log in logs:
        shape = guessed(log, options.exponent)
        for domain, k, epsilon in ((d, k, e) for d in ("unknown", "public") for k in options.k for e in options.epsilon):
            budget = acc.Budget(epsilon=epsilon, delta=1e-6)
            best = plan(budget, k, profile=shape, unknown_domain=domain == "unknown", rounds=400).recommended
            found, _ = Cell(log, domain, k, budget).recall(planned(Cell(log, domain, k, budget), best), options.draws, 0)
            low, high = best.forecast or (best.expected, best.expected)
            above = best.expected - found
            yield (
                above,
                (
                    f"{log.name:12} {domain:8} {k:4} {epsilon:5g} {low:9.3f} {high:6.3f} {best.expected:6.3f} {found:9.3f} "
                    f"{above:+7.3f}  {best.name}"
                ),
            )


def counts(logs: list[Log], options: argparse.Namespace) -> Iterator[tuple[float, str]]:
    """Recall with counts as a share of that without, and the line."""
    for log in logs:
        table, order = log.table(), np.argsort(-log.counts, kind="stable")
        names = {name: place for place, name in enumerate(log.labels)}
        for domain, k, epsilon in ((d, k, e) for d in ("unknown", "public", "pure") for k in options.k for e in options.epsilon):
            right, found, off, ask = (
                log.right(k),
                [0.0, 0.0],
                [],
                {"user": "user_id", "item": "item_id", "k": k, "epsilon": epsilon},
            )
            ask |= {"delta": 0.0 if domain == "pure" else 1e-6, "domain": None if domain == "unknown" else log.labels}
            for with_counts in (False, True):
                for _ in range(options.draws):
                    made = dps.topk(table, **ask, with_counts=with_counts)
                    places = [names[int(item)] for item in made.items]
                    found[with_counts] += right[places].sum() / k / options.draws
                    off += [] if made.values is None else list(np.array(made.values) - log.counts[places])
            width = made.mechanism.margin()  # type: ignore[attr-defined]
            ratio = found[1] / found[0] if found[0] else 1.0
            yield (
                ratio,
                (
                    f"{log.name:12} {domain:8} {k:4} {epsilon:5g} {log.counts[order[k - 1]]:7,} {found[0]:8.3f} {found[1]:6.3f} "
                    f"{ratio:6.2f} {width:8.1f} {float(np.sqrt(np.mean(np.square(off)))) if off else 0.0:8.1f}"
                ),
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", nargs="+", default=["gowalla", "nyc", "tky"])
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 4.0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--exponent", type=float, default=1.0)
    parser.add_argument("--user", default="user_id")
    parser.add_argument("--item", default="item_id")
    parser.add_argument("--counts", action="store_true")
    options = parser.parse_args()
    logs = [load(name, options.user, options.item) for name in options.logs]
    if options.counts:
        print("log          items       k   eps  kth count  without   with  ratio       +-   off by")
        ratios = []
        for ratio, line in counts(logs, options):
            print(line, flush=True)
            ratios.append(ratio)
        print(f"recall with counts over that without: {np.mean(ratios):.2f} on average, {min(ratios):.2f} at least")
        return
    print("log          items       k   eps  forecast   to    mean  realised  above  mechanism")
    found = []
    for above, line in forecasts(logs, options):
        print(line, flush=True)
        found.append(above)
    off = f"{np.mean(np.abs(found)):.3f} on average, {max(found):.3f} too high at most, {-min(found):.3f} too low at most"
    print(f"the mean is off by {off}")


if __name__ == "__main__":
    main()

"""`ReplaySpec`: what a release from a log rests on, tried by leaving users out."""

from __future__ import annotations

from typing import Any, ClassVar

from accounting.arguments import Relation
from accounting.frozen import Count
from dpselect.sensitivity import Norm
from dpselect.spec.base import LOG, Seed, Spec, option
from dpselect.spec.continual_spec import EveryFields, HorizonTimeFields, PeriodFields, WeightFields
from dpselect.spec.shared_fields import ItemFields, LogFields

_TIMES = "--time at --every day --since 2026-03-01 --until 2026-03-31"


class ReplayFields(Spec):
    """Which users are left out, and how they are called: the table [verify] of a file."""

    n_users: Count | None = option(
        "How many users to leave out, one at a time; half of them the heaviest. Default: 100, of a horizon 20."
    )
    seed: Seed = option("Seed of the choice of the other half, at least 0. It releases nothing.", "Output", 0)
    name_salt: str | None = option(
        "Secret that users' names are salted with. Default: a fresh one, and a name says nothing.", "Output"
    )


class ReplaySpec(ReplayFields, LogFields):
    """Read the log again without each of some users, and hold the changes against what the reading declares.

    What is checked is everything between the log and the mechanism: columns, bounds, clips and groups as topk uses them, where
    groups without a bound on those of a user are one table of cells. Users appear by a salted name only. The status is 1 where
    the declaration is broken.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{LOG} --max-items-per-user 3",
        f"{LOG} --clip 2 --n-users 500",
        "events.csv --config release.toml --json",
    )

    own_fields: ClassVar[Any] = (ReplayFields,)

    clip_norm: Norm | None = option(
        "The norm of clip=: l2 or l1. Default: the planned mechanism's, or l2.", "Bounds on users", metavar="NORM"
    )


class HorizonReplaySpec(ReplayFields, WeightFields, HorizonTimeFields, ItemFields):
    """Count all periods of a log again without each of some users, and hold the changes of all measurements against the price.

    What is checked is everything between the log and the noise: periods, bounds on users over all of them, pairs that count once.
    Users appear by a salted name only. The status is 1 where somebody moves more than is paid for.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{LOG} {_TIMES}",
        f"{LOG} {_TIMES} --count running --cells 10",
        f"{LOG} {_TIMES} --n-users 100 --json",
    )

    own_fields: ClassVar[Any] = (ReplayFields, PeriodFields, EveryFields)

    relation: Relation = option(
        "Neighbouring logs differ by one user (add_remove), or by what one user did (replace_one).", "Privacy", "add_remove"
    )

"""`doubts`: where what was released, and so is public, says that little was found, and what to look at next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dpselect.plan.candidates import Candidates
from dpselect.plan.counts import interval
from dpselect.plan.learn import Learnt, LearnThenSelect
from dpselect.release.question import request_of

if TYPE_CHECKING:
    from dpselect.plan.candidates import Choice
    from dpselect.release.question import Question
    from dpselect.selection import Selection

_LOOK = "'dpselect check' says how the log is read and how many listed items occur, to whoever may see the data"
_LIKELY = 0.5  # the share of the top k that a plan expected, from which on finding nothing is no matter of the budget


def doubts(question: Question, choice: Choice, selection: Selection, learnt: LearnThenSelect | None) -> list[str]:
    """Warnings of an answer, made of what is released with it and of nothing else.

    Few users hold a listed item where so many were learnt as noise alone may make, or where no number shown is beyond noise;
    where nothing is shown, what a plan expected among such users says whether the budget or the reading is to be looked at.
    """
    return [*_unmatched(question, choice, selection, learnt), *_nothing(question, choice, selection, learnt)]


def _unmatched(question: Question, choice: Choice, selection: Selection, learnt: LearnThenSelect | None) -> Iterator[str]:
    if question.domain is None:
        return
    alike = f"are ids written alike in log and catalogue? {_LOOK}"
    if learnt is not None and learnt.learning.users and choice.profile is not None:
        if found := _by_noise(choice, learnt):
            yield f"few users hold a listed item ({found}): {alike}"
        return
    around = interval(choice.mechanism) if choice.clip is None or question.recounted else None
    if around is not None and selection.values and max(selection.values) <= around.half_width:
        yield f"no number shown is beyond what noise alone makes, so that few users hold a listed item: {alike}"


def _by_noise(choice: Choice, learnt: LearnThenSelect | None) -> str | None:
    """That so few users were learnt that there may be none, in words; None where there are some."""
    if learnt is None or not learnt.learning.users or choice.profile is None:
        return None
    if Learnt(choice.profile, learnt.learning).at("low").users != 1:
        return None
    return f"about {choice.profile.users:,.0f} were learnt, which noise alone may have made"


def _nothing(question: Question, choice: Choice, selection: Selection, learnt: LearnThenSelect | None) -> Iterator[str]:
    if len(selection) or choice.profile is None or question.reading.group is not None or question.reading.value is not None:
        return
    if found := _by_noise(choice, learnt):
        if question.domain is None:
            looked = "the conditions and the times" if question.reading.where else "the columns and the times"
            yield f"nothing was found, and few users may be there ({found}): are {looked} those meant? {_LOOK}"
        return
    recalls = Candidates(request_of(question, None), (choice,)).recalls(choice, choice.profile)
    expected, among = float(np.mean(recalls)), choice.profile.in_words()
    if expected >= _LIKELY:
        look = "are the columns, the times and the delimiter those meant? "
        yield f"nothing was found, and a plan expects {expected:.0%} of the top {question.k} among {among}: {look}{_LOOK}"
    else:
        yield (
            f"nothing was found, and a plan expects no more than {expected:.0%} of the top {question.k} among {among}: "
            "'dpselect plan' says which budget finds more, before anything is paid"
        )

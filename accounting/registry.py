"""`Registry`: the members of a family by their kind, those of installed packages included."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from inspect import isabstract
from typing import Generic, TypeVar, final

from accounting.errors import AccountingError
from accounting.frozen import Frozen

M = TypeVar("M", bound=Frozen)
_SHOWN = 40  # characters of an unknown kind that an error quotes


@final
class Registry(Generic[M]):
    """Members by `kind`. An installed package adds one by an entry point of `group`: its name is the kind, its object the class.

    Such a package is imported when its kind is asked for or all members are listed, and not before. A kind that neither the
    library nor an installed package declares stays unknown: text never decides what is imported.

    Args:
        what: the family, in words.
        group: of the entry points.
        error: raised for an unknown kind.
        homes: the library's own packages of members, whose names are imported when first asked for.
    """

    def __init__(self, what: str, group: str, error: type[AccountingError], *, homes: tuple[str, ...] = ()) -> None:
        self._what, self._group, self._error, self._homes = what, group, error, homes
        self._known: dict[str, type[M]] = {}

    def add(self, member: type[M]) -> None:
        """Register a class under its kind."""
        if isabstract(member):
            raise TypeError(
                f"{member.__name__} lacks {', '.join(sorted(member.__abstractmethods__))}: every {self._what} states them"
            )
        if member.model_fields["kind"].is_required():
            raise TypeError(f"{member.__name__}.kind has no default: give it one, as in kind: Literal['mine'] = 'mine'")
        kind = kind_of(member)
        if self._known.setdefault(kind, member) is not member:
            raise TypeError(f"{self._what} kind {kind!r} is already taken by {self._known[kind].__name__}")

    def members(self) -> dict[str, type[M]]:
        """All of them by kind. A package that cannot be loaded is left out, with a warning that says why."""
        for home in self._homes:
            _import_all(home)
        for point in _points(self._group, tuple(sys.path)):
            try:
                self._load(point)
            except self._error as error:
                warnings.warn(str(error), RuntimeWarning, stacklevel=2)
        return dict(self._known)

    def member(self, kind: object) -> type[M]:
        """The class of this kind."""
        for home in self._homes:
            if not isinstance(kind, str) or kind not in self._known:
                _import_all(home)
        if isinstance(kind, str) and kind not in self._known:
            for point in _points(self._group, tuple(sys.path)).select(name=kind):
                self._load(point)
        if not isinstance(kind, str) or kind not in self._known:
            shown = repr(kind[:_SHOWN]) if isinstance(kind, str) else f"<{type(kind).__name__}>"
            raise self._error(f"kind={shown} is not a {self._what}: it must be one of {', '.join(sorted(self._known))}")
        return self._known[kind]

    def read(self, text: str | bytes, *, writer: str, too_deep: str) -> M:
        """The member that `writer` wrote as JSON; `too_deep` is said where it is nested deeper than it can be read."""
        try:
            data = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            raise self._error(f"the text is not JSON: pass what {writer} wrote") from None
        try:
            return self.build(data)
        except RecursionError:
            raise self._error(too_deep) from None

    def build(self, data: object) -> M:
        """The member that decoded JSON describes."""
        if not isinstance(data, Mapping):
            raise self._error(f"<{type(data).__name__}> is not a {self._what}: give one, or an object with its kind")
        return self.member(data.get("kind")).model_validate(data)

    def _load(self, point: EntryPoint) -> None:
        if point.name in self._known:
            return
        package = point.dist.name if point.dist is not None else "a package"
        try:
            point.load()
        except Exception as error:
            raise self._error(
                f"{self._what} {point.name!r} of the installed {package} cannot be loaded ({type(error).__name__}: {error}): "
                f"repair or remove {package}"
            ) from error
        if point.name not in self._known:
            raise self._error(
                f"{package} declares {self._what} {point.name!r} as {point.value}, which has not that kind: repair or remove it"
            )


def _import_all(home: str) -> None:
    module = import_module(home)
    for name in module.__all__:
        getattr(module, name)


def kind_of(member: type[Frozen]) -> str:
    """The `kind` of a class."""
    return str(member.model_fields["kind"].default)


@lru_cache(maxsize=8)
def _points(group: str, path: tuple[str, ...]) -> EntryPoints:  # noqa: ARG001 it is what the answer depends on
    """What the packages on this import path declare."""
    return entry_points(group=group)

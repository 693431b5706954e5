"""`Registry`: the members of a family by their kind, including those of installed packages."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from inspect import isabstract
from typing import Generic, TypeVar, final

from accounting.errors import AccountingError
from accounting.frozen import Frozen
from accounting.strict_json import distinct_keys

M = TypeVar("M", bound=Frozen)
_LONGEST_KIND = 40  # characters of an unknown kind that an error quotes


@final
class Registry(Generic[M]):
    """A family of classes by their `kind`.

    An installed package adds a member by an entry point of `group`, whose name is the kind and
    whose object is the class. Such a package is imported only when its kind is asked for or all
    members are listed. A kind that neither the library nor an installed package declares stays
    unknown, because text must never decide what is imported.

    Args:
        what: the family in words, for messages.
        group: name of the entry points of installed packages.
        error: class of the error raised for an unknown kind.
        homes: the library's own packages of members. A home exports each member under its class
            name, whose words are the kind, so that asking for one kind imports one module.
    """

    def __init__(
        self, what: str, group: str, error: type[AccountingError], *, homes: tuple[str, ...] = ()
    ) -> None:
        self._what, self._group, self._error, self._homes = what, group, error, homes
        self._known: dict[str, type[M]] = {}

    def add(self, member: type[M]) -> None:
        """Register a class under its kind.

        Raises:
            TypeError: the class is abstract, its kind has no default, or its kind is taken.
        """
        if isabstract(member):
            raise TypeError(
                f"{member.__name__} lacks {', '.join(sorted(member.__abstractmethods__))}: every"
                f" {self._what} states them"
            )
        if member.model_fields["kind"].is_required():
            raise TypeError(
                f"{member.__name__} has no default kind. Give it one, for example kind:"
                " Literal['mine'] = 'mine'"
            )
        kind = kind_of(member)
        if self._known.setdefault(kind, member) is not member:
            raise TypeError(
                f"{self._what} kind {kind!r} is already taken by {self._known[kind].__name__}"
            )

    def members(self) -> dict[str, type[M]]:
        """Return all members by kind.

        A package that cannot be loaded is left out, with a warning that says why.
        """
        for home in self._homes:
            _import_all(home)
        for point in _points(self._group, tuple(sys.path)):
            try:
                self._load(point)
            except self._error as error:
                warnings.warn(str(error), RuntimeWarning, stacklevel=2)
        return dict(self._known)

    def member(self, kind: object) -> type[M]:
        """Return the class of this kind, or raise the family's error if there is none."""
        if isinstance(kind, str) and kind not in self._known:
            for home in self._homes:
                _import_named(home, kind)
            for point in _points(self._group, tuple(sys.path)).select(name=kind):
                self._load(point)
        if not isinstance(kind, str) or kind not in self._known:
            for home in self._homes:
                _import_all(home)
            text = (
                repr(kind[:_LONGEST_KIND]) if isinstance(kind, str) else f"<{type(kind).__name__}>"
            )
            raise self._error(
                f"kind={text} is not a {self._what}. It must be one of"
                f" {', '.join(sorted(self._known))}"
            )
        return self._known[kind]

    def read(self, text: str | bytes, *, writer: str, too_deep: str) -> M:
        """Return the member that `writer` wrote as JSON.

        `too_deep` is the message for JSON that is nested too deeply to be read.
        """
        try:
            data = json.loads(text, object_pairs_hook=distinct_keys)
        except (ValueError, TypeError, RecursionError):
            raise self._error(f"the text is not JSON. Pass the text that {writer} wrote") from None
        try:
            return self.build(data)
        except RecursionError:
            raise self._error(too_deep) from None

    def build(self, data: object) -> M:
        """Return the member that decoded JSON describes."""
        if not isinstance(data, Mapping):
            raise self._error(
                f"<{type(data).__name__}> is not a {self._what}. Pass one, or an object with"
                " its kind"
            )
        return self.member(data.get("kind")).model_validate(data)

    def _load(self, point: EntryPoint) -> None:
        if point.name in self._known:
            return
        package = point.dist.name if point.dist is not None else "a package"
        try:
            point.load()
        except Exception as error:
            raise self._error(
                f"{self._what} {point.name!r} of the installed {package} cannot be loaded"
                f" ({type(error).__name__}: {error}). Repair or remove {package}"
            ) from error
        if point.name not in self._known:
            raise self._error(
                f"{package} declares {self._what} {point.name!r} as {point.value}, which does"
                " not have that kind. Repair or remove it"
            )


@cache
def _import_all(home: str) -> None:
    module = import_module(home)
    for name in module.__all__:
        getattr(module, name)


def _import_named(home: str, kind: str) -> None:
    """Import the export whose class name is this kind: `PeelingTopK` for "peeling_top_k"."""
    module = import_module(home)
    for name in module.__all__:
        if name.lower() == kind.replace("_", ""):
            getattr(module, name)


def kind_of(member: type[Frozen]) -> str:
    """Return the `kind` of a class."""
    return str(member.model_fields["kind"].default)


@lru_cache(maxsize=8)
def _points(group: str, path: tuple[str, ...]) -> EntryPoints:  # noqa: ARG001 a key of the cache
    """Return the entry points declared by the packages on this import path."""
    return entry_points(group=group)

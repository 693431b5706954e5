"""Pydantic base of all configuration: frozen, closed, and with errors that never echo data.

`Registry` holds the members of a family by their kind, including those of installed packages.
"""

from __future__ import annotations

import json
import math
import numbers
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from inspect import isabstract
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar, final

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
)
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from accounting.arguments import MOST_COUNT
from accounting.errors import AccountingError

_SHOWN = 60  # longest configuration value that an error quotes


class Frozen(BaseModel):
    """A frozen model that forbids unknown fields and raises its family's own error class."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", serialize_by_alias=True, allow_inf_nan=False
    )
    error_class: ClassVar[type[AccountingError]] = AccountingError

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # The outermost layer, around every validator of the member: a wrap validator of this class
        # would lie inside them.
        return core_schema.no_info_wrap_validator_function(cls._own_error, handler(source))

    @classmethod
    def _own_error(cls, data: Any, validate: Callable[[Any], Any]) -> Any:
        try:
            return validate(data)
        except ValidationError as error:
            details = error.errors(include_url=False)
            raise cls.error_class("; ".join(_explain_one(cls, detail) for detail in details)).at(
                *details[0]["loc"][:1]
            ) from None

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Return the model that the text describes.

        Raises:
            Frozen.error_class: the text is not JSON, or its values are refused.
        """
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError:  # what is wrong with values has become `error_class` already
            raise cls.error_class(
                f"the text is not the JSON of {cls.__name__}. Pass the text that"
                " model_dump_json wrote"
            ) from None

    @classmethod
    def model_construct(  # type: ignore[override]
        cls, _fields_set: set[str] | None = None, **values: Any
    ) -> Self:
        """Return the validated model, because a guarantee that skipped validation is none."""
        return cls.model_validate(values)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields replaced, by name or alias, and all validated again.

        Cached values are not copied.

        Raises:
            Frozen.error_class: a value is refused, or a field is unknown.
        """
        aliases = {name: field.alias or name for name, field in type(self).model_fields.items()}
        given = {alias: getattr(self, name) for name, alias in aliases.items()}
        replaced = {aliases.get(name, name): value for name, value in (update or {}).items()}
        return type(self).model_validate({**given, **replaced})

    def copy(self, **options: Any) -> Self:
        """Return a copy, as `model_copy` does, under pydantic's older name.

        It takes no other options than `model_copy`.
        """
        return self.model_copy(**options)

    # What is computed from the fields and kept beside them, by cached_property, is not part of the
    # value.

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.__dict__, other.__dict__
        return all(mine[name] == theirs[name] for name in type(self).__pydantic_fields__)

    def __getstate__(self) -> dict[Any, Any]:
        state = super().__getstate__()
        fields = type(self).__pydantic_fields__
        return {
            **state,
            "__dict__": {
                name: value for name, value in state["__dict__"].items() if name in fields
            },
        }

    def __repr_args__(self) -> Any:
        fields = type(self).model_fields
        for name, value in super().__repr_args__():
            field = fields.get(name or "")
            if name != "kind" and (field is None or value != field.default):
                yield (field.alias if field is not None and field.alias else name), value

    def __str__(self) -> str:
        return repr(self)


def _explain_one(cls: type[Frozen], detail: ErrorDetails) -> str:
    path = ".".join(str(step) for step in detail["loc"])
    known = ", ".join(
        (field.alias or name) for name, field in cls.model_fields.items() if name != "kind"
    )
    if detail["type"] == "extra_forbidden":
        return f"{cls.__name__} has no field {path!r}. Its fields are {known}"
    if detail["type"] == "missing":
        return f"{cls.__name__}.{path} is missing. The fields are {known}"
    rule = detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if not path:
        return f"{cls.__name__}: {rule}"
    expected = (
        field.description for name, field in cls.model_fields.items() if path in (name, field.alias)
    )
    remedy = f" (expected: {words})" if (words := next(expected, None)) else ""
    return f"{cls.__name__}.{path}={_shown(detail['input'])} must be {rule}{remedy}"


def _shown(value: object) -> str:
    """Return a scalar as text, and only the type of anything larger.

    Scalars are configuration and may be quoted; anything larger could be data.
    """
    if value is None or isinstance(value, bool | int | float | str):
        text = repr(value)
        return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return f"<{type(value).__name__}>"


def _real(value: object) -> object:
    """Return a number of any numeric type, NumPy's included, as a float.

    A bool, or a string that looks like a number, is refused.
    """
    if type(value) is float:
        # the common case, -0.0 made 0.0; NaN and infinity are refused by the model's configuration
        return value + 0.0
    if isinstance(value, bool | str | bytes) or not isinstance(value, numbers.Real):
        raise ValueError("a real number")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the largest float
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("a finite number")
    return number


def _integer(value: object) -> object:
    """Return an integer of any type, NumPy's included, as an int.

    A bool, a float or a string is refused.
    """
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ValueError("an integer")
    return int(value)


Real = Annotated[float, BeforeValidator(_real)]
NonNegative = Annotated[Real, Field(ge=0)]
Positive = Annotated[Real, Field(gt=0)]
Probability = Annotated[Real, Field(gt=0, lt=1)]
Count = Annotated[int, BeforeValidator(_integer), Field(ge=1, le=MOST_COUNT)]


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
            shown = (
                repr(kind[:_LONGEST_KIND]) if isinstance(kind, str) else f"<{type(kind).__name__}>"
            )
            raise self._error(
                f"kind={shown} is not a {self._what}. It must be one of"
                f" {', '.join(sorted(self._known))}"
            )
        return self._known[kind]

    def read(self, text: str | bytes, *, writer: str, too_deep: str) -> M:
        """Return the member that `writer` wrote as JSON.

        `too_deep` is the message for JSON that is nested too deeply to be read.
        """
        try:
            data = json.loads(text)
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

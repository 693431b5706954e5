"""Pydantic base of all configuration: frozen, closed, and with errors that never echo data."""

from __future__ import annotations

import inspect
import math
import numbers
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
)
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from accounting.arguments import MOST_COUNT, quote_setting
from accounting.errors import AccountingError


def in_full(value: object) -> str:
    """Return the text of a field, to be copied: 1e-6, not 1e-06."""
    return repr(value).replace("e-0", "e-") if isinstance(value, float) else repr(value)


class PlainType(str):
    """An annotation that `help` shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


def plain(annotation: Any) -> str:
    """Return an annotation as text, without the validators of its values.

    A type that is annotated with a name, because it is not imported, is shown by that name.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        names = [note for note in arguments[1:] if isinstance(note, str)]
        return names[0] if names else plain(arguments[0])
    if origin in (Union, types.UnionType):
        return " | ".join(map(plain, arguments))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(plain, arguments))}]"
    if annotation is ...:
        return "..."
    return "None" if annotation is type(None) else getattr(annotation, "__name__", str(annotation))


class _PlainSignature(inspect.Signature):
    """A signature that is printed with plain types. Its parameters have those of the fields."""

    def _plain(self) -> Any:
        return inspect.Signature(
            [
                parameter.replace(annotation=PlainType(plain(parameter.annotation)))
                if parameter.annotation is not parameter.empty
                else parameter
                for parameter in self.parameters.values()
            ],
            return_annotation=self.return_annotation,
        )

    def __str__(self) -> str:
        return str(self._plain())

    def format(self, **options: Any) -> str:  # which `help` calls from Python 3.13 on
        return str(self._plain().format(**options))


class _LazySignature:
    """Signature of a model, computed when it is asked for."""

    def __init__(self, computed: Any) -> None:
        self._computed = computed

    def __get__(self, instance: object, owner: type[BaseModel]) -> inspect.Signature:
        signature: inspect.Signature = self._computed.__get__(None, owner)
        return _PlainSignature(
            list(signature.parameters.values()), return_annotation=signature.return_annotation
        )


class Frozen(BaseModel):
    """A frozen model that forbids unknown fields and raises its family's own error class."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", serialize_by_alias=True, allow_inf_nan=False
    )
    error_class: ClassVar[type[AccountingError]] = AccountingError

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        if computed := vars(cls).get("__signature__"):  # None before forward names are known
            cls.__signature__ = _LazySignature(computed)  # type: ignore[assignment]

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
        fields = {alias: getattr(self, name) for name, alias in aliases.items()}
        replaced = {aliases.get(name, name): value for name, value in (update or {}).items()}
        return type(self).model_validate({**fields, **replaced})

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

    def __repr_str__(self, join_str: str) -> str:
        return join_str.join(f"{name}={in_full(value)}" for name, value in self.__repr_args__())

    def __str__(self) -> str:
        return repr(self)


def _explain_one(cls: type[Frozen], detail: ErrorDetails) -> str:
    path = ".".join(str(step) for step in detail["loc"])
    fields = ", ".join(
        (field.alias or name) for name, field in cls.model_fields.items() if name != "kind"
    )
    if detail["type"] == "extra_forbidden":
        return f"{cls.__name__} has no field {path!r}. Its fields are {fields}"
    if detail["type"] == "missing":
        return f"{cls.__name__}.{path} is missing. The fields are {fields}"
    rule = detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if not path:
        return f"{cls.__name__}: {rule}"
    expected = (
        field.description for name, field in cls.model_fields.items() if path in (name, field.alias)
    )
    remedy = f" (expected: {words})" if (words := next(expected, None)) else ""
    return f"{cls.__name__}.{path}={quote_setting(detail['input'])} must be {rule}{remedy}"


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

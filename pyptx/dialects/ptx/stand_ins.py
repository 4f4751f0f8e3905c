"""What `foundation` has instead of xDSL's classes in a process that makes no IR: they hold their data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Operation:
    """The base of the op classes, which are not instantiated."""

    name: str


class OpTraits:
    """Traits are for passes."""

    def __init__(self, traits: Callable[[], Iterable[object]]):
        pass


class Attribute:
    """The base of all attributes."""


class TypeAttribute(Attribute):
    """The base of types."""


class Data(Attribute, Generic[T]):
    """An attribute that is as good as its data."""

    __slots__ = ("data",)

    def __init__(self, data: T):
        self.data = data

    def __eq__(self, other: object) -> bool:
        return self.__class__ is other.__class__ and self.data == other.data  # pyright: ignore

    def __hash__(self) -> int:
        return hash(self.data)


class StringAttr(Data[str]):
    """A text."""


class UnitAttr(Attribute):
    """A flag."""


class ArrayAttr(Data[tuple[T, ...]]):
    """Attributes in order."""

    def __init__(self, data: Iterable[T]):
        super().__init__(tuple(data))

    def __iter__(self) -> Iterator[T]:
        return iter(self.data)


class VerifyException(Exception):
    """Raised by the verifiers of operations."""


def irdl_attr_definition(cls: type[T]) -> type[T]:
    return cls

"""The classes of xDSL that the dialect's own are made of; in a process that makes no IR, stand-ins for them.

The reader of text and its judge ask the op classes for facts (forms, effects, ...) and keep data in attributes. They
import these names from here, and everything else of xDSL where IR is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from .. import makes_ir as makes_ir
from . import deferred

if TYPE_CHECKING:
    from xdsl.traits import OpTrait

if TYPE_CHECKING or makes_ir:
    from xdsl.dialects.builtin import ArrayAttr as ArrayAttr
    from xdsl.dialects.builtin import StringAttr as StringAttr
    from xdsl.dialects.builtin import UnitAttr as UnitAttr
    from xdsl.ir import Attribute as Attribute
    from xdsl.ir import Data as Data
    from xdsl.ir import Operation as Operation
    from xdsl.ir import OpTraits as OpTraits
    from xdsl.ir import TypeAttribute as TypeAttribute
    from xdsl.irdl import irdl_attr_definition as irdl_attr_definition
    from xdsl.utils.exceptions import VerifyException as VerifyException
else:
    from .stand_ins import ArrayAttr as ArrayAttr
    from .stand_ins import Attribute as Attribute
    from .stand_ins import Data as Data
    from .stand_ins import Operation as Operation
    from .stand_ins import OpTraits as OpTraits
    from .stand_ins import StringAttr as StringAttr
    from .stand_ins import TypeAttribute as TypeAttribute
    from .stand_ins import UnitAttr as UnitAttr
    from .stand_ins import VerifyException as VerifyException
    from .stand_ins import irdl_attr_definition as irdl_attr_definition


_new = object.__new__
_set = object.__setattr__
_DataT = TypeVar("_DataT", bound=Data[Any])


def data_attr(cls: type[_DataT], data: object) -> _DataT:
    """The same as `cls(data)`, without the checks of its constructor, which take longer than all the rest."""
    attr = _new(cls)
    _set(attr, "data", data)
    return attr


def traits_of(kind: str) -> OpTraits:
    """The traits of a kind of op class; `traits`, which has them, is imported when a pass first asks."""

    def found() -> tuple[OpTrait, ...]:
        return deferred.traits.TRAITS[kind]

    return OpTraits(found)

# SPDX-License-Identifier: Apache-2.0
"""Codecs as objects with typed options: `codecs.DGC(ratio=0.01)` in place of the text "dgc(ratio=0.01)"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from hipress._library import load_core

if TYPE_CHECKING:
    from typing_extensions import Self

#: The value of an option.
Value: TypeAlias = "bool | int | float | str"


class Codec(str):
    """A codec and its options. The object is its text, so it stands wherever a text does: as `codec=`, in `codec_for`,
    in a warm-up, in a file. `name` and the options are attributes."""

    name: str

    def __new__(cls, name: str, /, **options: Value) -> Self:
        """Raises InvalidArgument, with the options of the codec and their ranges."""
        usual = cls.__new__.__kwdefaults__ or {}
        made = super().__new__(
            cls, codec_text(name, {key: each for key, each in options.items() if each != usual.get(key)})
        )
        load_core().create_codec(str(made))
        made.__dict__.update(options, name=name)
        return made

    def __setattr__(self, option: str, value: object) -> None:
        raise AttributeError(f"{self!r} does not change: make another one")

    def _options(self) -> dict[str, Any]:
        return {key: each for key, each in self.__dict__.items() if key != "name"}

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:  # of copies and pickles
        return (), self._options()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={each!r}' for key, each in self._options().items())})"


class LoadedCodec(Codec):
    """What load_codec() returns: the codec with its default options, and by a call with others."""

    def __new__(cls, name: str, /, **options: Value) -> Self:
        """Raises InvalidArgument, also if this process has not loaded the codec."""
        return super().__new__(cls, name, **options)

    def __call__(self, **options: Value) -> Self:
        """The codec with these options. Raises InvalidArgument."""
        return type(self)(self.name, **options)

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.name,), self._options()


def codec_text(name: str, options: dict[str, Any]) -> str:
    """The text of a codec with these options."""
    said = ", ".join(f"{key}={value_text(each)}" for key, each in options.items())
    return f"{name}({said})" if said else name


def value_text(value: Value) -> str:
    """An option's value as it stands in a codec's text."""
    return str(value).lower() if isinstance(value, bool) else str(value)

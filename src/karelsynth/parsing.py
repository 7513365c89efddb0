"""JSON and TOML that others wrote: one guard around each parser.

The parsers of the standard library raise more than their own errors. A thousand brackets exceed Python's recursion
limit, a number of 4,301 digits is a plain ValueError, and `"\\ud800"` is a string that cannot be written. Values that
parse can still break the code that reads them: `float` overflows at 309 digits. Here all of this becomes a ParseError.
Callers bound the size of a text before it is parsed (`files.read_text`).
"""

from __future__ import annotations

import errno
import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from karelsynth.errors import KarelsynthError

_DEEP: Final = "it is nested too deep"
_LONG: Final = "a number in it is too long"
_NO_CHARACTER: Final = "it holds half of a surrogate pair, which is no character"
_MOST_DOTS: Final = 200
"""In a line of TOML: the parser's memory grows with the square of the parts of a dotted key."""
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


class ParseError(KarelsynthError, ValueError):
    """A text that is not valid JSON or TOML, or that nobody can use."""

    def __init__(self, form: str, reason: str, line: int | None = None, column: int | None = None) -> None:
        self.form, self.reason, self.line, self.column = form, reason, line, column
        where = "" if line is None else f"line {line}, column {column}: "
        super().__init__(f"{where}not valid {form}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.form, self.reason, self.line, self.column)


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; raises ParseError. Bytes are UTF-8."""
    with _guard("JSON"):
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        else:
            text.encode()  # raises UnicodeEncodeError for half of a surrogate pair
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise ParseError("JSON", error.msg, error.lineno, error.colno) from None
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()  # likewise
        return value


def parse_toml(text: str) -> dict[str, Any]:
    """The table of a TOML text; raises ParseError."""
    with _guard("TOML"):
        text.encode()
        for number, line in enumerate(text.split("\n"), 1):
            if line.count(".") > _MOST_DOTS:
                raise ParseError("TOML", f"more than {_MOST_DOTS} dots in one line; break it", number, 1)
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ParseError("TOML", str(error)) from None


@contextmanager
def _guard(form: str) -> Iterator[None]:
    try:
        yield
    except ParseError:
        raise
    except UnicodeDecodeError as error:
        raise ParseError(form, f"not UTF-8 text (byte {error.start})") from None
    except UnicodeEncodeError:
        raise ParseError(form, _NO_CHARACTER) from None
    except RecursionError:
        raise ParseError(form, _DEEP) from None
    except (ValueError, OverflowError):
        raise ParseError(form, _LONG) from None


@contextmanager
def reading_zip(kind: type[KarelsynthError], where: str) -> Iterator[None]:
    """A context for code that reads a zip archive: whatever is wrong with it raises `kind` with `where` in front."""
    import lzma
    import struct
    import zipfile
    import zlib

    try:
        yield
    except KarelsynthError:
        raise
    except (
        *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError),
        *(LookupError, ValueError, OverflowError, RuntimeError),  # RuntimeError: encrypted, or an unknown compression
    ) as error:
        raise kind(f"{where} ({error})") from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place before the start of the file
            raise
        raise kind(f"{where} ({error.strerror})") from None


@contextmanager
def reading(kind: type[KarelsynthError], where: str) -> Iterator[None]:
    """A context for code that makes our objects of parsed values: extreme values raise `kind` with `where` in front.

    Errors of ours pass unchanged. Other errors are bugs and pass, too.
    """
    try:
        yield
    except KarelsynthError:
        raise
    except RecursionError:
        raise kind(f"{where}: {_DEEP}") from None
    except OverflowError:
        raise kind(f"{where}: a number in it is too large") from None
    except UnicodeEncodeError:
        raise kind(f"{where}: {_NO_CHARACTER}") from None

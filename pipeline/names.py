"""Feature names as a model text can carry them: a reversible mapping, the same for every format.

LightGBM turns spaces into underscores, rejects the characters of JSON and does not survive line breaks. Those
characters, and the percent sign itself, are written as %XX of their UTF-8 bytes; all other names stay as they are.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

_UNSAFE = re.compile(r'[%\s\x00-\x1f\x7f",:\[\]{}\\]')


def encode_name(name: str) -> str:
    """`"my price"` -> `"my%20price"`. Two different names never meet."""
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode()), name)


def decode_name(name: str) -> str:
    """The inverse of `encode_name`."""
    return unquote(name)

"""Pictures as clients send them: from text to bytes, from bytes to RGB pixels.

All of it happens outside native model code, on bytes that nobody vouches for. What a
picture claims to be is read from its header and checked before pixels are allocated.
Errors are predicates ("is ..."), for whoever knows which picture it was to complete.

Pure but for Pillow. Any thread.
"""

from __future__ import annotations

import base64
import binascii
import re
import warnings
from io import BytesIO
from typing import Final
from urllib.parse import unquote_to_bytes

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from kinetic.errors import RequestError
from kinetic.model.tiles import Pixels

FORMATS: Final = ("PNG", "JPEG", "WEBP", "GIF")
"""What is read; of moving pictures the first frame."""

MAX_BYTES: Final = 24 << 20
"""Most bytes of a picture's file."""

MAX_PIXELS: Final = 1 << 25
"""Most pixels of a picture: 33,554,432, such as 8192 x 4096."""

MAX_JPEG_PIXELS: Final = 1 << 26
"""A JPEG may have twice as many, since it can be scaled down while it is decoded."""

WORKING_PIXELS: Final = 1 << 24
"""Larger pictures are halved before a model sees them. No projector looks at more."""

MAX_SCANS: Final = 64
"""Most passes over a JPEG's pixels; programs write about ten."""

GROUND: Final = (255, 255, 255)
"""What shows through transparent pixels."""

# Twice as many raise inside Pillow, before we see the size: the second line of defence.
Image.MAX_IMAGE_PIXELS = MAX_JPEG_PIXELS
# What lies between is refused here in plain words, and what else a file gets wrong is
# no news for the operator's screen.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", module=r"PIL\.")

_DATA_URL = re.compile(r"\s*data:(?P<kind>[^,]*),", re.IGNORECASE)
_SCHEME = re.compile(r"\s*(?P<name>[a-z][a-z0-9+.-]*):", re.IGNORECASE)
_BLANKS = re.compile(rb"\s+")
_PADDING = b"="
_START_OF_SCAN = b"\xff\xda"
_DEEP = ("I", "I;16", "I;16B", "I;16L", "I;16N")  # sixteen bits of grey


def read_source(text: str) -> bytes:
    """The bytes of a picture's file from a base64 data URL, or from bare base64.

    Line breaks, missing padding and the URL-safe alphabet are taken. The type that a
    data URL claims is not: the bytes tell. Raises RequestError.
    """
    payload = _payload(text)
    raw = payload.encode("ascii", "replace")
    if b"%" in raw:
        raw = unquote_to_bytes(raw)
    raw = _BLANKS.sub(b"", raw).translate(bytes.maketrans(b"-_", b"+/"))
    raw = raw.rstrip(_PADDING)
    if not raw:
        raise RequestError("is empty")
    n_bytes = len(raw) * 3 // 4
    if n_bytes > MAX_BYTES:
        raise RequestError(f"has {n_bytes} bytes; at most {MAX_BYTES} are read")
    try:
        return base64.b64decode(raw + _PADDING * (-len(raw) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestError("is not valid base64") from error


def _payload(text: str) -> str:
    """What is behind a data URL's comma, or all of a text that is no URL."""
    match = _DATA_URL.match(text)
    if match is not None:
        kinds = match["kind"].lower().split(";")
        if "base64" not in (kind.strip() for kind in kinds[1:]):
            raise RequestError("must be a base64 data URL: data:image/png;base64,...")
        return text[match.end() :]
    scheme = _SCHEME.match(text)
    if scheme is not None:
        raise RequestError(
            f'is a URL of the kind "{scheme["name"].lower()[:16]}:", and this server'
            " fetches nothing: send the picture itself as a base64 data URL"
        )
    return text


def decode(data: bytes) -> Pixels:
    """Decode a picture's file to RGB, turned as its EXIF block says.

    Grey, palettes, transparency (over white), sixteen bits and CMYK all become eight
    bits of RGB. Raises RequestError for what is no picture, broken, or too large.
    """
    try:
        with Image.open(BytesIO(data), formats=FORMATS) as image:
            _check(image, data)
            return _pixels(image)
    except RequestError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise RequestError(
            f"has more pixels than the {MAX_PIXELS} that are read"
        ) from error
    except UnidentifiedImageError as error:
        names = ", ".join(FORMATS[:-1])
        raise RequestError(
            f"is no picture that can be read: {names} and {FORMATS[-1]} can"
        ) from error
    except Exception as error:  # decoders raise whatever they stumble over
        raise RequestError(f"is cut short or broken: {_plain(error)}") from error


def _check(image: Image.Image, data: bytes) -> None:
    """Refuse by the header alone what would take too much to decode."""
    width, height = image.size
    limit = MAX_JPEG_PIXELS if _is_jpeg(image) else MAX_PIXELS
    if width * height > limit:
        raise RequestError(
            f"is {width} x {height} pixels; at most {limit} pixels are read"
        )
    if width < 1 or height < 1:
        raise RequestError("has no pixels")
    if _is_jpeg(image) and data.count(_START_OF_SCAN) > MAX_SCANS:
        raise RequestError(f"is a JPEG of more than {MAX_SCANS} scans")


def _is_jpeg(image: Image.Image) -> bool:
    return image.format in {"JPEG", "MPO"}


def _pixels(image: Image.Image) -> Pixels:
    width, height = image.size
    if width * height > WORKING_PIXELS and _is_jpeg(image):
        # The decoder leaves out what would be averaged away.
        image.draft("RGB", (width // 2, height // 2))
    image.load()
    whole = _upright(_halved(image))
    rgb = _flat(whole)
    return Pixels(rgb.width, rgb.height, rgb.tobytes())


def _halved(image: Image.Image) -> Image.Image:
    while image.width * image.height > WORKING_PIXELS:
        if image.mode in {"P", "PA", "1", *_DEEP}:
            # Indices cannot be averaged.
            image = _flat(image)
        image = image.reduce(2)
    return image


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # noqa: BLE001 - a broken EXIF block says nothing
        return image


def _flat(image: Image.Image) -> Image.Image:
    """The picture in RGB, with nothing to see through."""
    if image.mode in _DEEP:
        grey = np.asarray(image).astype(np.int64) >> 8
        image = Image.fromarray(grey.clip(0, 255).astype(np.uint8))
    if not image.has_transparency_data:
        return image.convert("RGB")
    ground = Image.new("RGBA", image.size, (*GROUND, 255))
    ground.alpha_composite(image.convert("RGBA"))
    return ground.convert("RGB")


def _plain(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:120]

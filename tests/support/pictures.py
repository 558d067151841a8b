"""Pictures for tests: sound ones in every form, and broken, odd and hostile ones."""

import base64
import io
import struct
import zlib

import numpy as np
from PIL import Image


def drawing(width=96, height=64, seed=0):
    """A picture of coloured fields, another one for every seed."""
    draw = np.random.default_rng(seed)
    fields = draw.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    small = Image.fromarray(fields)
    return small.resize((width, height), Image.Resampling.NEAREST)


def encoded(image, kind="PNG", **options):
    """The bytes of a picture's file."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def png(width=96, height=64, seed=0):
    """A drawing as a PNG file."""
    return encoded(drawing(width, height, seed))


def data_url(data, kind="image/png"):
    """A base64 data URL."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def chunk(kind, body):
    """One chunk of a PNG file."""
    check = struct.pack(">I", zlib.crc32(kind + body))
    return struct.pack(">I", len(body)) + kind + body + check


def png_bomb(width, height, *, rows=0):
    """A small PNG file that says it is large; `rows` of black pixels are really in it."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packer = zlib.compressobj(9)
    line = bytes(1 + 3 * min(width, 1 << 20))
    body = b"".join(packer.compress(line) for _ in range(rows)) + packer.flush()
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", head),
            chunk(b"IDAT", body),
            chunk(b"IEND", b""),
        )
    )


def jpeg_bomb(width, height, *, n_scans=1):
    """A small JPEG file that says it is large, with a number of scans."""
    small = bytearray(encoded(Image.new("L", (8, 8)), "JPEG", progressive=n_scans > 1))
    at = small.index(b"\xff\xc2" if n_scans > 1 else b"\xff\xc0")
    small[at + 5 : at + 9] = struct.pack(">HH", height, width)
    scan = small[small.index(b"\xff\xda") : -2]
    return bytes(small[:-2] + scan * (n_scans - 1) + small[-2:])

"""What clients send as pictures becomes RGB pixels, or is refused in plain words."""

import base64
import contextlib
import resource
import struct
import zlib

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from PIL import Image

from kinetic.errors import RequestError
from kinetic.model.vision import pictures
from kinetic.model.vision.pictures import decode, read_source
from tests.support.pictures import (
    chunk,
    data_url,
    drawing,
    encoded,
    jpeg_bomb,
    png,
    png_bomb,
)


def pixels(data):
    found = decode(data)
    return np.frombuffer(found.rgb, np.uint8).reshape(found.height, found.width, 3)


# --- Sources ------------------------------------------------------------------------

PNG = png()
BASE64 = base64.b64encode(PNG).decode()
# Both letters that differ in the URL-safe alphabet, and padding.
ODD = bytes(range(256)) + b"\xfb\xff"


@pytest.mark.parametrize(
    "text",
    [
        data_url(PNG),
        data_url(PNG, "image/jpeg"),
        data_url(PNG, "text/plain"),
        data_url(PNG, "image/png;charset=utf-8"),
        data_url(PNG, ""),
        f"  DATA:image/png;BASE64,{BASE64}\n",
        BASE64,
        BASE64.rstrip("="),
        "\r\n".join(BASE64[i : i + 76] for i in range(0, len(BASE64), 76)),
        data_url(PNG).replace("+", "%2B").replace("/", "%2F").replace("=", "%3D"),
    ],
)
def test_every_way_to_write_base64_gives_the_same_bytes(text):
    assert read_source(text) == PNG


def test_the_url_safe_alphabet_is_read():
    text = base64.urlsafe_b64encode(ODD).decode()
    assert "-" in text
    assert "_" in text
    assert read_source(text) == ODD
    assert read_source(text.rstrip("=")) == ODD


@pytest.mark.parametrize(
    "text",
    [
        "http://example.org/a.png",
        "HTTPS://example.org/a.png",
        "file:///etc/passwd",
        "ftp://example.org/a.png",
        "http://169.254.169.254/latest/meta-data",
        "blob:http://localhost/1",
        "javascript:alert(1)",
    ],
)
def test_nothing_is_fetched(text):
    with pytest.raises(RequestError, match="fetches nothing"):
        read_source(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("   \n", "is empty"),
        ("data:image/png;base64,", "is empty"),
        ("data:image/png;base64,====", "is empty"),
        ("data:image/png,%89PNG", "must be a base64 data URL"),
        ("data:,x", "must be a base64 data URL"),
        ("data:image/png;base64,not base64!", "is not valid base64"),
        ("data:image/png;base64,AAAAA", "is not valid base64"),
        ("naïve", "is not valid base64"),
        ("\ud800", "is not valid base64"),
    ],
)
def test_what_is_no_base64_is_refused(text, why):
    with pytest.raises(RequestError, match=why):
        read_source(text)


def test_a_file_of_too_many_bytes_is_refused_before_it_is_decoded():
    with pytest.raises(RequestError, match=f"at most {pictures.MAX_BYTES} are read"):
        read_source("A" * (pictures.MAX_BYTES * 4 // 3 + 8))


# --- Sound pictures -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF"])
def test_lossless_files_give_their_pixels(kind):
    image = drawing()
    options = {"lossless": True} if kind == "WEBP" else {}
    assert np.array_equal(pixels(encoded(image, kind, **options)), np.asarray(image))


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}])
def test_a_jpeg_gives_about_its_pixels(options):
    image = drawing()
    found = pixels(encoded(image, "JPEG", quality=95, **options))
    assert np.abs(found.astype(int) - np.asarray(image)).mean() < 6


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_grey_is_the_same_in_all_three_colours(kind):
    found = pixels(encoded(drawing().convert("L"), kind))
    assert np.array_equal(found[..., 0], found[..., 1])
    assert np.array_equal(found[..., 0], found[..., 2])
    assert len(np.unique(found)) > 4


def test_one_bit_is_black_and_white():
    found = pixels(encoded(drawing().convert("1")))
    assert set(np.unique(found)) == {0, 255}


def test_sixteen_bits_of_grey_lose_the_lower_eight():
    deep = (np.arange(64 * 64, dtype=np.uint32) * 16).astype(np.uint16).reshape(64, 64)
    found = pixels(encoded(Image.fromarray(deep)))
    assert np.array_equal(found[..., 0], deep >> 8)


def test_sixteen_bits_of_colour_lose_the_lower_eight():
    head = struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0)
    row = b"\0" + struct.pack(">6H", 0x1234, 0x5678, 0x9ABC, 0xFFFF, 0, 0x8000)
    data = b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", head),
            chunk(b"IDAT", zlib.compress(row)),
            chunk(b"IEND", b""),
        )
    )
    assert pixels(data).tolist() == [[[0x12, 0x56, 0x9A], [0xFF, 0, 0x80]]]


def test_a_palette_becomes_its_colours():
    image = drawing().quantize(64)
    found = pixels(encoded(image))
    assert np.array_equal(found, np.asarray(image.convert("RGB")))


def test_an_interlaced_png_gives_its_pixels():
    image = drawing()
    # Pillow writes none: the seven passes are made by hand.
    whole = np.asarray(image)
    passes = [
        whole[y::dy, x::dx]
        for x, y, dx, dy in (
            (0, 0, 8, 8),
            (4, 0, 8, 8),
            (0, 4, 4, 8),
            (2, 0, 4, 4),
            (0, 2, 2, 4),
            (1, 0, 2, 2),
            (0, 1, 1, 2),
        )
    ]
    rows = b"".join(b"\0" + row.tobytes() for part in passes for row in part)
    head = struct.pack(">IIBBBBB", image.width, image.height, 8, 2, 0, 0, 1)
    data = b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", head),
            chunk(b"IDAT", zlib.compress(rows)),
            chunk(b"IEND", b""),
        )
    )
    assert np.array_equal(pixels(data), whole)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_what_is_transparent_shows_white(kind):
    image = drawing().convert("RGBA")
    image.putalpha(Image.new("L", image.size, 0))
    image.paste((255, 0, 0, 255), (0, 0, 32, 64))
    image.paste((0, 0, 0, 128), (32, 0, 64, 64))
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    found = pixels(encoded(image, kind, **options))
    assert found[10, 10].tolist() == [255, 0, 0]
    assert found[10, 40].tolist() == [127, 127, 127]
    assert found[10, 80].tolist() == [255, 255, 255]


def test_a_palette_with_a_transparent_colour_shows_white():
    image = Image.new("P", (8, 8), 1)
    image.putpalette([0, 0, 0, 200, 0, 0])
    image.putpixel((3, 3), 0)
    found = pixels(encoded(image, transparency=1))
    assert found[3, 3].tolist() == [0, 0, 0]
    assert found[0, 0].tolist() == [255, 255, 255]


def test_grey_with_alpha_shows_white():
    image = Image.merge("LA", (Image.new("L", (8, 8), 9), Image.new("L", (8, 8), 0)))
    assert np.unique(pixels(encoded(image))).tolist() == [255]


def test_cmyk_has_the_colours_it_prints():
    image = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    red = pixels(encoded(image, "JPEG", quality=95))[8, 8]
    assert red[0] > 240
    assert red[1] < 15
    assert red[2] < 15


@pytest.mark.parametrize(
    ("orientation", "turn"),
    [
        (1, lambda a: a),
        (2, lambda a: a[:, ::-1]),
        (3, lambda a: a[::-1, ::-1]),
        (4, lambda a: a[::-1]),
        (5, lambda a: a.transpose(1, 0, 2)),
        (6, lambda a: np.rot90(a, -1)),
        (7, lambda a: np.rot90(a, 2).transpose(1, 0, 2)),
        (8, lambda a: np.rot90(a)),
    ],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_exif_turns_the_picture_upright(kind, orientation, turn):
    image = drawing()
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"quality": 100, "subsampling": 0} if kind == "JPEG" else {}
    plain = pixels(encoded(image, kind, **options))
    turned = pixels(encoded(image, kind, exif=exif, **options))
    assert np.array_equal(turned, turn(plain))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_a_broken_exif_block_turns_nothing():
    data = encoded(drawing(), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff broken")
    assert pixels(data).shape == (64, 96, 3)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_of_a_moving_picture_the_first_frame_is_read(kind):
    frames = [drawing(seed=seed) for seed in range(3)]
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encoded(
        frames[0], kind, save_all=True, append_images=frames[1:], duration=50, **options
    )
    assert np.array_equal(pixels(data), np.asarray(frames[0]))


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 5000), (3, 2), (5000, 1)])
def test_odd_sizes_keep_their_size(width, height):
    assert pixels(encoded(Image.new("RGB", (width, height)))).shape[:2] == (
        height,
        width,
    )


def test_a_large_photo_is_scaled_down():
    photo = Image.new("RGB", (7000, 5000), (10, 200, 30))
    found = pixels(encoded(photo, "JPEG"))
    assert found.shape == (2500, 3500, 3)
    assert np.abs(found.astype(int) - (10, 200, 30)).max() < 4


@pytest.mark.parametrize("mode", ["RGB", "P", "RGBA", "LA", "1"])
def test_a_large_drawing_is_halved(mode):
    found = pixels(encoded(Image.new(mode, (5000, 4001))))
    assert found.shape == (2001, 2500, 3)


# --- Broken and hostile ones --------------------------------------------------------

WHOLE = {
    "png": png(),
    "jpeg": encoded(drawing(), "JPEG"),
    "progressive": encoded(drawing(), "JPEG", progressive=True),
    "webp": encoded(drawing(), "WEBP"),
    "gif": encoded(drawing(), "GIF"),
}


@pytest.mark.parametrize("data", [b"", b"hello", b"\x89PNG", b"GIF89a", b"%PDF-1.7 x"])
def test_what_is_no_picture_is_refused(data):
    with pytest.raises(RequestError, match=r"is (no picture|cut short or broken)"):
        decode(data)


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "ICO", "PPM", "TGA"])
def test_other_formats_are_refused(kind):
    with pytest.raises(RequestError, match="PNG, JPEG, WEBP and GIF can"):
        decode(encoded(drawing(), kind))


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_file_cut_short_is_refused(name, share):
    data = WHOLE[name]
    with pytest.raises(RequestError, match=r"^is "):
        decode(data[: int(len(data) * share)])


@hypothesis.given(
    st.sampled_from(sorted(WHOLE)),
    st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=8),
)
@hypothesis.settings(max_examples=150)
def test_damaged_files_give_pixels_or_a_plain_refusal(name, damages):
    data = bytearray(WHOLE[name])
    for place, value in damages:
        data[int(place * len(data))] = value
    refusal = ""
    try:
        found = decode(bytes(data))
    except RequestError as error:
        refusal = str(error)
    if refusal:
        assert "\n" not in refusal
    else:
        assert len(found.rgb) == found.width * found.height * 3


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize(
    "data",
    [
        png_bomb(60_000, 60_000),
        png_bomb(20_000, 20_000, rows=2_000),
        png_bomb(1, (1 << 31) - 1),
        png_bomb((1 << 31) - 1, 1),
        png_bomb(1 << 31, 1),
        png_bomb(0xFFFFFFFF, 0xFFFFFFFF),
        png_bomb(0, 10),
        png_bomb(6_000, 6_000),
        jpeg_bomb(65_000, 65_000),
        jpeg_bomb(9_000, 9_000),
        b"GIF89a" + struct.pack("<HHBBB", 65_535, 65_535, 0, 0, 0) + b";",
    ],
    ids=range(11),
)
def test_a_bomb_is_refused_by_its_header(data):
    assert len(data) < 200_000
    before = peak_mib()
    with pytest.raises(RequestError):
        decode(data)
    assert peak_mib() - before < 20


def test_a_jpeg_of_countless_scans_is_refused():
    with pytest.raises(RequestError, match="more than 64 scans"):
        decode(jpeg_bomb(8_000, 8_000, n_scans=500))


def test_a_png_whose_text_unpacks_to_gigabytes_is_refused():
    packer = zlib.compressobj(9)
    zeros = b"".join(packer.compress(bytes(1 << 20)) for _ in range(256))
    body = b"Comment\0\0" + zeros + packer.flush()
    data = png()
    at = data.index(b"IDAT") - 4
    before = peak_mib()
    with contextlib.suppress(RequestError):
        decode(data[:at] + chunk(b"zTXt", body) + data[at:])
    assert peak_mib() - before < 100


def test_the_largest_picture_that_is_read_takes_bounded_memory():
    data = encoded(Image.new("RGBA", (8192, 4096), (1, 2, 3, 4)), compress_level=1)
    before = peak_mib()
    assert decode(data).width == 4096
    assert peak_mib() - before < 700

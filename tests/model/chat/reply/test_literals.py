import pytest
from hypothesis import given, strategies as st

from kinetic.model.chat.reply.jsontext import MAX_DEPTH
from kinetic.model.chat.reply.literals import read_arguments
from kinetic.model.chat.reply.source import Mismatch, Source

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("abc \"'\\\n\té漢🌧,)]}:=("),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("ab'\" :", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def arguments(text: str, size: int | None = None):
    """What a call's parentheses hold; the text begins behind the opening one."""
    source = Source()
    reader = read_arguments(source)
    step = size or max(len(text), 1)
    for i in range(0, len(text), step):
        source.feed(text[i : i + step])
        try:
            next(reader)
        except StopIteration as done:
            return done.value
    source.end(truncated=False)
    with pytest.raises(StopIteration) as end:
        next(reader)
    return end.value.value


@given(
    st.dictionaries(st.sampled_from(["a", "from", "b-c"]), VALUES), st.integers(1, 9)
)
def test_what_python_writes_is_read(values, size):
    written = ", ".join(f"{name}={value!r}" for name, value in values.items())
    assert arguments(f"{written})]", size) == values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a='it's')", "it's"),
        ("a='say 'hi' now', b=1)", "say 'hi' now"),
        ('a="x" + "y")', 'x" + "y'),
        ("a='f('x'), g')]", "f('x'), g"),
        ("a='x', )", "x"),
        ("a='')", ""),
        ("a='''x'y'''  )", "x'y"),
        ("a='\\q\\\\')", "\\q\\"),
        ("a='\\x4')", "\\x4"),
        ("a='\\U00110000')", "\\U00110000"),
        ("a='a\\\nb')", "ab"),
        ("a=(1, 2,))", [1, 2]),
        ("a=[[], {}, ()])", [[], {}, []]),
        ("a={'k': 'v', \"l\": null,})", {"k": "v", "l": None}),
        ("a=1_0)", 10),
        ("a=-007)", -7),
        ("a=.5e1)", 5.0),
    ],
)
def test_values_are_read_as_models_write_them(text: str, value):
    assert arguments(text)["a"] == value
    assert arguments(text, 1)["a"] == value


@pytest.mark.parametrize(
    "text",
    [
        "'x')",
        "a)",
        "a=)",
        "a=b)",
        "a=1 b=2)",
        "a='x",
        "a=[1",
        "a={1: 2})",
        "a={'k' 1})",
        "a=1e999)",
        f"a={'9' * 5000})",
        "=1)",
        "a=1",
        "a=nan)",
    ],
)
def test_anything_else_is_a_mismatch(text: str):
    with pytest.raises(Mismatch):
        arguments(text)


def test_half_a_surrogate_is_replaced():
    assert arguments("a='\\ud83c')") == {"a": "\ufffd"}
    assert arguments("a='\\ud83c\\udf27')") == {"a": "🌧"}


@pytest.mark.parametrize("opening", ["[", "(", "{'a':"])
def test_nesting_is_bounded(opening: str):
    closing = {"[": "]", "(": ")", "{'a':": "}"}[opening]
    inside = MAX_DEPTH - 1
    assert arguments(f"a={opening * inside}1{closing * inside})")
    for depth in (MAX_DEPTH + 1, 50_000):
        with pytest.raises(Mismatch):
            arguments(f"a={opening * depth}1{closing * depth})")


def test_the_last_of_two_values_counts():
    assert arguments("a=1, a=2)") == {"a": 2}

import pytest

from kinetic.errors import HubError
from kinetic.hub.choice import HubFile, Wanted, choose, is_safe, parse_reference

HUB = "https://hub.example"


def files(*paths):
    return [HubFile(path=p, size_bytes=10, sha256="0" * 64) for p in paths]


def chosen(paths, tag=None):
    found = choose(files(*paths), Wanted(repo="o/r", tag=tag))
    return [f.path for f in found]


@pytest.mark.parametrize(
    ("text", "repo", "tag"),
    [
        ("owner/name", "owner/name", None),
        ("owner/name:Q4_K_M", "owner/name", "Q4_K_M"),
        ("owner/name:latest", "owner/name", None),
        ("owner/name:model-f16.gguf", "owner/name", "model-f16.gguf"),
        ("https://hub.example/owner/name", "owner/name", None),
        ("https://hub.example/owner/name/", "owner/name", None),
        (" owner/name.v1-GGUF ", "owner/name.v1-GGUF", None),
    ],
)
def test_a_reference_is_a_repository_with_or_without_a_tag(text, repo, tag):
    assert parse_reference(text, HUB) == Wanted(repo=repo, tag=tag)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        "a/b/c",
        "/b",
        "a/",
        "../b",
        "a/..",
        "a/b:",
        "a b/c",
        "https://other.example/a/b",
        "ä/b",
    ],
)
def test_a_reference_that_is_no_repository_is_refused(text):
    with pytest.raises(HubError, match="OWNER/NAME"):
        parse_reference(text, HUB)


def test_the_only_model_is_taken_whatever_it_is():
    assert chosen(["README.md", "m.Q2_K.gguf"]) == ["m.Q2_K.gguf"]


def test_q4_k_m_is_preferred_then_q8_0():
    paths = ["m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf"]
    assert chosen(paths) == ["m-Q4_K_M.gguf"]
    assert chosen(["m-Q2_K.gguf", "m-Q8_0.gguf"]) == ["m-Q8_0.gguf"]


def test_several_files_and_none_preferred_are_listed():
    with pytest.raises(HubError, match=r"Q2_K \(0\.00 GB\), Q3_K_S"):
        chosen(["m-Q2_K.gguf", "m-Q3_K_S.gguf"])


@pytest.mark.parametrize(
    ("tag", "path"),
    [
        ("q4_k_m", "m-Q4_K_M.gguf"),
        ("Q4_K", "m-Q4_K.gguf"),
        ("IQ4_XS", "m-IQ4_XS.gguf"),
        ("Q4_0", "m.Q4_0.gguf"),
        ("m-F16", "m-F16.gguf"),
        ("m-F16.gguf", "m-F16.gguf"),
        ("sub/x.gguf", "sub/x.gguf"),
        ("mmproj-m-f16.gguf", "mmproj-m-f16.gguf"),
    ],
)
def test_a_tag_is_a_quantisation_or_a_file(tag, path):
    paths = [
        "m-Q4_K_M.gguf",
        "m-Q4_K.gguf",
        "m-IQ4_XS.gguf",
        "m-IQ4_0.gguf",
        "m.Q4_0.gguf",
        "m-F16.gguf",
        "mmproj-m-f16.gguf",
        "sub/x.gguf",
    ]
    assert chosen(paths, tag) == [path]


def test_an_unknown_tag_lists_what_there_is():
    with pytest.raises(HubError, match="has no Q5_K_M; it has Q4_K_M"):
        chosen(["m-Q4_K_M.gguf"], "Q5_K_M")


def test_a_projector_is_not_taken_for_a_model():
    assert chosen(["mmproj-m-Q8_0.gguf", "m-Q3_K_M.gguf"]) == ["m-Q3_K_M.gguf"]
    assert chosen(["mmproj-m-Q8_0.gguf", "m-Q8_0.gguf"], "Q8_0") == ["m-Q8_0.gguf"]


def test_all_parts_of_a_split_model_are_taken_in_order():
    parts = [f"Q4_K_M/m-Q4_K_M-{n:05d}-of-00003.gguf" for n in (3, 1, 2)]
    assert chosen(parts) == sorted(parts)


def test_a_split_model_with_a_part_missing_is_not_offered():
    with pytest.raises(HubError, match="no GGUF file"):
        chosen(["m-00001-of-00002.gguf"])


def test_a_repository_without_gguf_files_says_so():
    with pytest.raises(HubError, match="holds no GGUF file"):
        chosen(["model.safetensors"])


def test_two_files_of_one_quantisation_are_told_apart_by_name():
    with pytest.raises(HubError, match=r"a-Q4_K_M\.gguf .*, b-Q4_K_M\.gguf"):
        chosen(["a-Q4_K_M.gguf", "b-Q4_K_M.gguf"])


@pytest.mark.parametrize(
    "path", ["../x.gguf", "/x.gguf", "a/../x.gguf", "a\\x.gguf", "x\0.gguf"]
)
def test_a_path_that_leaves_its_folder_is_not_offered(path):
    assert not is_safe(path)
    with pytest.raises(HubError, match="no GGUF file"):
        chosen([path])


def test_an_ordinary_path_is_safe():
    assert is_safe("sub/m-Q4_K_M.gguf")

"""`kinetic pull` against a hub on this computer."""

import fcntl
import hashlib
import shutil
import socket
from types import SimpleNamespace

import pytest

from kinetic.cli.options import serve_options
from kinetic.cli.program import main, parser
from kinetic.errors import HubError, ModelError
from kinetic.files import digest, paths, store
from kinetic.hub import pull as pulling
from tests.support.fake_hub import Fault, running_hub

MODEL = b"GGUF" + bytes(range(256)) * 20_000  # 5 MB
REPO = "owner/model-GGUF"
FILE = "model-Q4_K_M.gguf"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with running_hub() as hub:
        hub.files[REPO] = {"README.md": b"hello", FILE: MODEL}
        monkeypatch.setenv("HF_ENDPOINT", hub.hub_url)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield hub


@pytest.fixture
def waits():
    return []


def pull(waits, reference=REPO):
    return pulling.pull(reference, wait=waits.append)


def leftovers():
    return [p.name for p in paths.cache_dir("models").rglob("*.part")]


def test_a_model_is_fetched_checked_and_found_by_its_names(hub, waits):
    path = pull(waits)
    assert path.read_bytes() == MODEL
    assert path == paths.cache_dir("models") / "owner" / "model-GGUF" / FILE
    assert leftovers() == []
    names = [
        REPO,
        f"{REPO}:q4_k_m",
        "model-gguf",
        "model-Q4_K_M",
        f"{REPO}:latest",
        FILE,
    ]
    assert {store.find(name).path for name in names} == {path}
    assert waits == []


def test_the_hash_of_what_was_fetched_is_remembered(hub, waits):
    path = pull(waits)
    assert digest.remembered((path,)) == hashlib.sha256(MODEL).hexdigest()


def test_a_second_pull_downloads_nothing(hub, waits):
    pull(waits)
    pull(waits)
    assert hub.downloads == [None]


def test_a_file_changed_on_the_disk_is_fetched_again(hub, waits):
    path = pull(waits)
    path.write_bytes(b"GGUF" + MODEL[5:] + b"x")
    assert pull(waits).read_bytes() == MODEL


def test_a_new_version_on_the_hub_replaces_the_old_file(hub, waits):
    pull(waits)
    hub.files[REPO][FILE] = MODEL + b"more"
    assert pull(waits).read_bytes() == MODEL + b"more"


def test_a_cut_connection_is_resumed_where_it_ended(hub, waits):
    hub.faults += [Fault(cut_after=1_000_000), Fault(cut_after=2_000_000)]
    assert pull(waits).read_bytes() == MODEL
    assert hub.downloads == [None, "bytes=1000000-", "bytes=3000000-"]
    assert waits == [1.0, 1.0]


def test_a_given_up_download_goes_on_with_the_next_command(hub, waits):
    hub.faults += [Fault(cut_after=1_500_000), *[Fault(cut_after=0)] * 5]
    with pytest.raises(HubError, match="the same command goes on"):
        pull(waits)
    assert len(leftovers()) == 1
    assert not (paths.cache_dir("models") / "owner" / "model-GGUF" / FILE).exists()
    assert store.stored_models() == []
    hub.asked.clear()
    assert pull(waits).read_bytes() == MODEL
    assert hub.downloads == ["bytes=1500000-"]
    assert leftovers() == []


def test_storage_that_knows_no_ranges_starts_over(hub, waits):
    hub.faults += [Fault(cut_after=1_000_000), Fault(ignores_range=True)]
    assert pull(waits).read_bytes() == MODEL


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_storage_that_is_busy_or_whose_address_expired_is_asked_again(
    hub, waits, status
):
    hub.faults += [Fault(status=status)]
    assert pull(waits).read_bytes() == MODEL
    assert len(waits) == 1


def test_wrong_contents_are_thrown_away(hub, waits):
    hub.faults += [Fault(contents=MODEL[:-1] + b"?")]
    with pytest.raises(HubError, match="thrown away"):
        pull(waits)
    assert leftovers() == []
    assert store.stored_models() == []
    assert pull(waits).read_bytes() == MODEL


def test_a_part_that_was_damaged_is_found_out(hub, waits):
    hub.faults += [Fault(cut_after=1_000_000), *[Fault(cut_after=0)] * 5]
    with pytest.raises(HubError):
        pull(waits)
    (part,) = paths.cache_dir("models").rglob("*.part")
    part.write_bytes(b"x" * 1_000_000)
    with pytest.raises(HubError, match="thrown away"):
        pull(waits)


def test_a_part_longer_than_the_file_is_not_used(hub, waits):
    hub.faults += [Fault(cut_after=1_000_000), *[Fault(cut_after=0)] * 5]
    with pytest.raises(HubError):
        pull(waits)
    (part,) = paths.cache_dir("models").rglob("*.part")
    part.write_bytes(MODEL + MODEL)
    assert pull(waits).read_bytes() == MODEL


def test_a_part_of_another_version_is_not_used_and_goes_away(hub, waits):
    hub.faults += [Fault(cut_after=1_000_000), *[Fault(cut_after=0)] * 5]
    with pytest.raises(HubError):
        pull(waits)
    hub.files[REPO][FILE] = MODEL[::-1]
    hub.asked.clear()
    assert pull(waits).read_bytes() == MODEL[::-1]
    assert hub.downloads == [None]
    assert leftovers() == []


def test_two_pulls_of_one_file_do_not_mix(hub, waits):
    hub.faults += [Fault(cut_after=1_000_000), *[Fault(cut_after=0)] * 5]
    with pytest.raises(HubError):
        pull(waits)
    (part,) = paths.cache_dir("models").rglob("*.part")
    with part.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(HubError, match="another `kinetic pull`"):
            pull(waits)


def test_a_full_disk_is_told_before_anything_comes(hub, waits, monkeypatch):
    usage = SimpleNamespace(total=2_000_000, used=1_000_000, free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(HubError, match=r"0\.01 GB are still to come .* 0\.00 GB free"):
        pull(waits)
    assert hub.downloads == []


def test_the_token_goes_to_the_hub_and_not_to_its_storage(hub, waits, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    pull(waits)
    seen = {who: h.get("Authorization") for who, _, h in hub.asked}
    assert seen == {"hub": "Bearer secret", "storage": None}


def test_a_renamed_repository_is_followed_with_the_token(hub, waits, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    hub.moved["old/name"] = REPO
    path = pull(waits, "old/name")
    assert path.read_bytes() == MODEL
    keys = {h.get("Authorization") for who, _, h in hub.asked if who == "hub"}
    assert keys == {"Bearer secret"}


def test_a_gated_repository_says_where_to_consent(hub, waits):
    hub.refusals[REPO] = (401, "GatedRepo")
    with pytest.raises(HubError, match=rf"accept its terms at {hub.hub_url}/{REPO}"):
        pull(waits)


def test_a_repository_that_is_not_there_says_so(hub, waits):
    with pytest.raises(
        HubError, match="no repository no/such; a private one needs HF_TOKEN"
    ):
        pull(waits, "no/such")


def test_a_404_without_a_code_is_no_repository_either(hub, waits):
    hub.refusals[REPO] = (404, "")
    with pytest.raises(HubError, match="no repository"):
        pull(waits)


def test_a_busy_hub_is_asked_again(hub, waits):
    hub.listing_statuses += [503, 429]
    assert pull(waits).read_bytes() == MODEL
    assert waits == [2.0, 4.0]


def test_a_hub_that_stays_busy_is_given_up(hub, waits):
    hub.listing_statuses += [503] * 9
    with pytest.raises(HubError, match="503"):
        pull(waits)
    assert len(waits) == 4


def test_no_network_is_told_at_once(hub, waits, monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = closed.getsockname()[1]
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{address}")
        with pytest.raises(HubError, match="cannot be reached"):
            pull(waits)
    assert waits == []


def test_an_address_that_is_none_is_refused(hub, waits, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc")
    with pytest.raises(HubError, match="HF_ENDPOINT must be"):
        pull(waits)


def test_every_part_of_a_split_model_is_fetched(hub, waits):
    names = [f"big/m-{n:05d}-of-00002.gguf" for n in (1, 2)]
    hub.files["o/split"] = {names[0]: b"GGUF one", names[1]: b"GGUF two"}
    path = pull(waits, "o/split")
    model = store.find("o/split")
    assert model.path == path
    assert [f.read_bytes() for f in model.files] == [b"GGUF one", b"GGUF two"]
    assert store.find("m").size_bytes == 16


def test_a_small_file_outside_the_large_storage_is_checked_by_gits_hash(hub, waits):
    hub.plain.add(FILE)
    assert pull(waits).read_bytes() == MODEL
    pull(waits)
    assert len(hub.downloads) == 1
    hub.files[REPO][FILE] = MODEL[1:]
    hub.faults += [Fault(contents=b"?" + MODEL[2:])]
    with pytest.raises(HubError, match="thrown away"):
        pull(waits)


def test_a_listing_that_makes_no_sense_is_refused(hub, waits, monkeypatch):
    monkeypatch.setattr(type(hub), "listing", lambda *_: {"sha": "main"})
    with pytest.raises(HubError, match="cannot be read"):
        pull(waits)


def test_the_command_line_pulls_lists_and_removes(hub, capsys):
    assert main(["list"]) == 0
    assert "no models" in capsys.readouterr().out
    assert main(["pull", REPO]) == 0
    said = capsys.readouterr()
    assert f"kinetic serve {REPO}:Q4_K_M" in said.out
    assert FILE in said.err
    assert main(["list"]) == 0
    assert f"{REPO}:Q4_K_M" in capsys.readouterr().out
    assert main(["rm", "model-gguf"]) == 0
    assert "removed" in capsys.readouterr().out
    assert list(paths.cache_dir("models").iterdir()) == []
    assert main(["rm", "model-gguf"]) == 1
    assert "no pulled model" in capsys.readouterr().err


def test_the_command_line_gives_one_line_and_code_1_for_what_cannot_be_pulled(
    hub, capsys
):
    assert main(["pull", "no/such"]) == 1
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert said.err.startswith("kinetic: the hub has no repository no/such")


def test_serving_a_name_finds_the_pulled_file_and_asks_no_hub(hub, waits):
    path = pull(waits)
    hub.asked.clear()
    arguments = parser().parse_args(["serve", REPO])
    assert serve_options(arguments).model == path
    arguments = parser().parse_args(["serve", "no/such"])
    with pytest.raises(ModelError, match="`kinetic pull no/such` fetches it"):
        serve_options(arguments)
    assert hub.asked == []

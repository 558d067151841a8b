"""Keys: their files, what they sign and what is refused."""

import json
import os
import stat

import pytest

from kinetic.errors import ReceiptError
from kinetic.receipts import signing
from kinetic.receipts.record import signer_json

# RFC 8032, section 7.1, tests 1 and 2.
SEED_1 = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
PUBLIC_1 = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
SIGNATURE_1 = (
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb88215"
    "90a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
)


def test_signatures_are_those_of_the_rfc():
    signer = signing.Signer(bytes.fromhex(SEED_1))
    assert signer.public_key.hex == PUBLIC_1
    assert signer.sign(b"") == SIGNATURE_1
    assert signer.public_key.accepts(b"", SIGNATURE_1)


def test_another_message_key_or_signature_is_not_accepted():
    key = signing.PublicKey(PUBLIC_1)
    assert not key.accepts(b"x", SIGNATURE_1)
    assert not signing.Signer(bytes(32)).public_key.accepts(b"", SIGNATURE_1)
    for at in range(64):
        raw = bytearray.fromhex(SIGNATURE_1)
        raw[at] ^= 1
        assert not key.accepts(b"", raw.hex())
    assert not key.accepts(b"", SIGNATURE_1[:-2])
    assert not key.accepts(b"", "zz" * 64)


def test_a_key_that_is_no_point_accepts_nothing():
    for weak in ("00" * 32, "01" + "00" * 31, "ff" * 32):
        assert not signing.PublicKey(weak).accepts(b"", "00" * 64)


def test_a_made_key_is_its_owners_alone_and_signs_after_reading_back(tmp_path):
    path = tmp_path / "key"
    before = os.umask(0)
    try:
        made = signing.generate(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    read = signing.load(path)
    assert read.public_key == made.public_key
    assert made.public_key.accepts(b"m", read.sign(b"m"))
    assert made.public_key.hex not in path.read_text()


def test_a_strict_umask_still_lets_the_owner_read(tmp_path):
    before = os.umask(0o777)
    try:
        signing.generate(tmp_path / "key")
    finally:
        os.umask(before)
    signing.load(tmp_path / "key")


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "directory"])
def test_nothing_that_exists_is_overwritten(tmp_path, kind):
    path = tmp_path / "key"
    other = tmp_path / "other"
    if kind == "directory":
        path.mkdir()
    elif kind == "file":
        path.write_text("precious")
    else:
        path.symlink_to(other)
        if kind == "link":
            other.write_text("precious")
    with pytest.raises(ReceiptError, match="exists already"):
        signing.generate(path)
    if kind in {"file", "link"}:
        assert path.read_text() == "precious"
    assert other.exists() == (kind == "link")


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(ReceiptError, match="cannot write"):
        signing.generate(tmp_path / "no" / "key")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o666])
def test_a_key_that_others_can_reach_is_refused(tmp_path, mode):
    path = tmp_path / "key"
    signing.generate(path)
    path.chmod(mode)
    with pytest.raises(ReceiptError, match=f"mode {mode:04o}.*chmod 600"):
        signing.load(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        SEED_1,
        f"kinetic-ed25519-seed {SEED_1[:-2]}",
        f"kinetic-ed25519-seed {SEED_1.upper()}",
        f"kinetic-ed25519-seed {SEED_1}\nkinetic-ed25519-seed {SEED_1}",
        f"other-label {SEED_1}",
        "kinetic-ed25519-seed é",
        f"kinetic-ed25519-seed {SEED_1}\n" + "#" * 5000,
    ],
)
def test_what_is_no_key_file_is_refused_without_repeating_it(tmp_path, text):
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ReceiptError, match="no signing key") as caught:
        signing.load(path)
    assert SEED_1[:8] not in str(caught.value)


def test_comments_and_blank_lines_in_a_key_file_say_nothing(tmp_path):
    path = tmp_path / "key"
    path.write_text(f"# mine\n\n  kinetic-ed25519-seed   {SEED_1}  \n# end\n")
    path.chmod(0o600)
    assert signing.load(path).public_key.hex == PUBLIC_1


def test_a_missing_key_a_directory_and_a_pipe_are_refused(tmp_path):
    with pytest.raises(ReceiptError, match="cannot read"):
        signing.load(tmp_path / "none")
    with pytest.raises(ReceiptError):
        signing.load(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ReceiptError, match="regular file"):
        signing.load(tmp_path / "pipe")


def test_a_public_key_is_read_from_digits_a_file_or_the_servers_answer(tmp_path):
    path = tmp_path / "key.pub"
    for text in (
        PUBLIC_1,
        f"  {PUBLIC_1.upper()}\n",
        json.dumps(signer_json(signing.PublicKey(PUBLIC_1))),
    ):
        path.write_text(text)
        assert signing.read_public_key(str(path)).hex == PUBLIC_1
    assert signing.read_public_key(PUBLIC_1.upper()).hex == PUBLIC_1


@pytest.mark.parametrize(
    "text", ["", "abc", "{", "[1]", '{"public_key": 3}', "[" * 3000]
)
def test_a_file_without_a_public_key_is_refused(tmp_path, text):
    path = tmp_path / "key.pub"
    path.write_text(text)
    with pytest.raises(ReceiptError, match="no public key"):
        signing.read_public_key(str(path))


def test_a_public_key_that_is_neither_digits_nor_a_file_is_refused():
    with pytest.raises(ReceiptError, match="neither"):
        signing.read_public_key("no/such/file")


def test_fingerprints_compare_however_they_are_spelled():
    name = signing.PublicKey(PUBLIC_1).fingerprint
    assert len(name) == 32
    spaced = ":".join(name[i : i + 2] for i in range(0, 32, 2)).upper()
    assert signing.same_fingerprint(name, spaced)
    assert signing.is_fingerprint(spaced)
    assert not signing.same_fingerprint(name, name[:-1] + "g")
    assert not signing.is_fingerprint(name[:-1])

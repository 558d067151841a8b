"""kinetic keygen, as it is called, and what becomes of its key."""

from kinetic.cli.program import main
from kinetic.receipts import signing


def test_a_key_is_made_once_and_told(tmp_path, capsys):
    path = tmp_path / "key"
    assert main(["keygen", str(path)]) == 0
    out = capsys.readouterr().out
    key = signing.load(path).public_key
    assert key.hex in out
    assert key.fingerprint in out
    content = path.read_text()
    assert main(["keygen", str(path)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert path.read_text() == content


def test_serving_with_a_key_that_others_can_reach_is_refused(tmp_path, capsys):
    path = tmp_path / "key"
    main(["keygen", str(path)])
    path.chmod(0o644)
    model = tmp_path / "m.gguf"
    model.write_bytes(b"")
    code = main(["serve", str(model), "--port", "0", "--sign-key", str(path)])
    assert code == 1
    assert "chmod 600" in capsys.readouterr().err

import pytest

from kinetic.cli import program as cli


@pytest.mark.parametrize(
    ("flags", "port"),
    [
        ([], 8080),
        (["--ollama"], 11434),
        (["--ollama", "--port", "8080"], 8080),
        (["--ollama", "--port", "0"], 0),
        (["--port", "1234"], 1234),
    ],
)
def test_ollama_moves_the_port_and_an_explicit_one_wins(flags, port, tmp_path):
    model = tmp_path / "m.gguf"
    model.touch()
    arguments = cli.parser().parse_args(["serve", str(model), *flags])
    assert cli.serve_options(arguments).port == port

import pytest

from kinetic.cli.options import serve_options
from kinetic.cli.program import parser


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
    arguments = parser().parse_args(["serve", str(model), *flags])
    assert serve_options(arguments).port == port

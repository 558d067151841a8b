import pytest

from kinetic.cli.options import serve_options
from kinetic.cli.program import parser
from kinetic.errors import ModelError


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_template_file_is_refused_at_the_start(text, tmp_path):
    model, template = tmp_path / "m.gguf", tmp_path / "t.jinja"
    model.touch()
    template.write_text(text)
    flags = ["serve", str(model), "--chat-template-file", str(template)]
    arguments = parser().parse_args(flags)
    with pytest.raises(ModelError, match="holds no chat template"):
        serve_options(arguments)

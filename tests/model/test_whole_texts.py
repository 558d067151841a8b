"""Texts that cross into the engine and back are whole, whatever characters they have."""

from kinetic.loading import chat_template
from kinetic.model.engine import EngineOptions, LlamaEngine
from tests.support import tiny_models


def test_a_chat_template_with_a_nul_is_read_to_its_end():
    source = "{{ messages[0].content }}\0{{ messages[0].role }}"
    options = EngineOptions(n_ctx=64, n_parallel=1, n_threads=1)
    engine = LlamaEngine(tiny_models.with_template(source), options)
    try:
        assert chat_template(engine, None).source == source
    finally:
        engine.close()

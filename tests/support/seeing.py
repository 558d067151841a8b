"""Running prompts with pictures through the real actors."""

from __future__ import annotations

import contextlib

from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.native.images import Projector, ProjectorOptions
from kinetic.model.vision.vision import MARKERS, PictureSource, Vision
from tests.support.answers import Harness
from tests.support.pictures import data_url

PICTURE = "<picture>"
"""Stands for a picture in the texts of tests."""


class Seeing(Harness):
    """A harness whose prompts may hold pictures."""

    def __init__(self, engine, plan, projector, *, encoder=None, **named):
        super().__init__(engine, plan, encoder=encoder or projector, **named)
        self.vision = Vision(projector, engine.vocab, engine.n_batch)

    def read(self, text, *pictures):
        """Ids and spans of a text with a picture's file for every PICTURE in it."""
        sources = [
            PictureSource(text=data_url(data), where=f"pictures[{i}]")
            for i, data in enumerate(pictures)
        ]
        for marker in MARKERS[: len(pictures)]:
            text = text.replace(PICTURE, marker, 1)
        return self.vision.tokens(text, None, sources)

    def job(self, prompt, *pictures, **named):
        """A job for a text, with a picture's file for every PICTURE in it."""
        if not isinstance(prompt, str):
            return super().job(prompt, **named)
        ids, spans = self.read(prompt, *pictures)
        return super().job(ids, images=spans, **named)

    def answer(self, prompt, *pictures, **named):
        """Run one job to its end."""
        (answer,) = self.submit(self.job(prompt, *pictures, **named)).wait()
        return answer


@contextlib.contextmanager
def seeing(model_path, projector_path, plan_of, *, wrap=None, **options):
    """A harness over a model and its projector; `wrap(projector)` encodes for it."""
    names = ("cache", "drafting")
    own = {name: options.pop(name) for name in names if name in options}
    options.setdefault("n_threads", 1)
    engine = LlamaEngine(model_path, EngineOptions(**options))
    projector = Projector(
        projector_path, engine.model, ProjectorOptions(n_threads=options["n_threads"])
    )
    encoder = None if wrap is None else wrap(projector)
    harness = Seeing(engine, plan_of(engine), projector, encoder=encoder, **own)
    harness.system.start()
    try:
        yield harness
    finally:
        harness.system.stop()
        projector.close()
        engine.close()

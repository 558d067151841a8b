"""The order of steps, and what happens to a load or a server that fails."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

import pytest

from scripts.bench import plan, run
from scripts.bench.client import Answer, RequestError
from scripts.bench.loads import LOADS, Load, fits, held
from scripts.bench.material import ARGUMENTS, SCHEMA
from scripts.bench.prompts import Prompts
from scripts.bench.results import Results
from scripts.bench.servers import ALL, DRAFTING, Process, Server, Setup, StartError

# A server that is well, and knows nothing else.
WELL = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def server(name="one", code=WELL, **more):
    def command(_setup, port):
        return [sys.executable, "-c", code, str(port)]

    return Server(name=name, command=command, **more)


@pytest.fixture
def setup(tmp_path):
    return Setup(
        model="MODEL", n_threads=1, states=str(tmp_path), llama_server="llama-server"
    )


def small_part(tmp_path, servers, loads, rounds=2):
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    return plan.Part(
        key="k",
        model="m",
        title="t",
        file=lambda: model,
        servers=servers,
        loads=loads,
        rounds=rounds,
    )


def test_each_round_starts_with_the_next_server(tmp_path):
    part = small_part(tmp_path, (server("a"), server("b")), ("cold", "turns"))
    order = [(s.round, s.load, s.server.name) for s in run.steps(part)]
    assert order == [
        (1, "cold", "a"),
        (1, "cold", "b"),
        (1, "turns", "a"),
        (1, "turns", "b"),
        (2, "cold", "b"),
        (2, "cold", "a"),
        (2, "turns", "b"),
        (2, "turns", "a"),
    ]


def test_a_server_is_not_asked_for_what_it_cannot_give(tmp_path):
    part = small_part(tmp_path, ALL, ("pause", "prefill", "first_start"))
    found = [(s.round, s.load, s.server.name) for s in run.steps(part)]
    assert ("llama-cpp-python" in {name for _, load, name in found}) is False
    assert [one for one in found if one[1] == "prefill"] == [
        (1, "prefill", "Kinetic"),
        (2, "prefill", "Kinetic"),
    ]
    assert [one for one in found if one[1] == "first_start"] == [
        (1, "first_start", "Kinetic")
    ]


def ran(tmp_path, monkeypatch, servers, loads, **named):
    """Runs a part whose loads are these functions, on servers without a model."""
    monkeypatch.setattr(run, "token_counter", lambda _path: len)

    async def no_warm_up(_visit):
        return {}

    monkeypatch.setattr(run, "streams", no_warm_up)
    made = {
        name: Load(run=one, figures=("one_tps",), cost=1) for name, one in loads.items()
    }
    monkeypatch.setattr(run, "LOADS", made)
    part = small_part(tmp_path, servers, tuple(loads), **named)
    results = Results(made="", command="", machine={}, versions={}, n_threads=1)
    kept = []
    bench = run.Bench(
        llama_server=tmp_path,
        n_threads=1,
        progress=run.Progress(1.0),
        keep=lambda: kept.append(len(results.sections[0].figures)),
    )
    run.run_part(part, results, bench)
    return results.sections[0], kept


def test_a_load_that_fails_is_written_down_and_the_others_run(tmp_path, monkeypatch):
    async def fails(_visit):
        raise ExceptionGroup("many", [RequestError("503: no room")])

    async def works(_visit):
        return {"one_tps": 12.34567}

    section, kept = ran(
        tmp_path, monkeypatch, (server(),), {"bad": fails, "good": works}
    )
    assert section.figures["one_tps"] == {"one": [12.35, 12.35]}
    assert [(f.load, f.round, f.error) for f in section.failures] == [
        ("bad", 1, "RequestError: 503: no room"),
        ("bad", 2, "RequestError: 503: no room"),
    ]
    assert kept == [0, 1, 1, 1]


def test_a_server_that_does_not_start_loses_its_own_figures_alone(
    tmp_path, monkeypatch
):
    async def works(_visit):
        return {"one_tps": 1.0}

    dead = server("dead", "import sys; sys.exit('no such model')")
    section, _ = ran(tmp_path, monkeypatch, (server(), dead), {"good": works}, rounds=1)
    assert section.figures["one_tps"] == {"one": [1.0]}
    assert {failure.server for failure in section.failures} == {"dead"}
    assert "no such model" in section.failures[0].error


def test_a_server_that_died_is_started_again(tmp_path, monkeypatch):
    async def kills(visit):
        visit.process.stop()
        raise RequestError("gone")

    async def works(visit):
        assert visit.process.is_alive
        return {"one_tps": 1.0}

    loads = {"bad": kills, "good": works}
    section, _ = ran(tmp_path, monkeypatch, (server(),), loads)
    assert section.figures["one_tps"] == {"one": [1.0, 1.0]}


def test_no_process_is_left_when_a_run_is_interrupted(tmp_path, monkeypatch):
    seen = []

    async def interrupted(visit):
        seen.append(visit.process)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ran(tmp_path, monkeypatch, (server(),), {"bad": interrupted})
    assert not seen[0].is_alive


def test_a_process_tells_its_start_and_memory(setup):
    process = Process(server(), setup)
    assert process.memory_mib() == 0.0
    process.start()
    try:
        assert process.start_s > 0
        assert process.memory_mib() > 1
    finally:
        process.stop()
    assert not process.is_alive
    process.stop()


class Working:
    """A server that works for some looks more, each for the time of a look."""

    def __init__(self, looks):
        self.left, self.looks, self.used = looks, 0, 0.0

    def cpu_s(self):
        self.looks += 1
        if self.left > 0:
            self.left -= 1
            self.used += 1.0
        return self.used


@pytest.mark.parametrize(("works", "looks"), [(0, 2), (1, 2), (4, 5), (99, 11)])
def test_nobody_is_measured_before_all_servers_are_quiet(monkeypatch, works, looks):
    monkeypatch.setattr(run, "_LOOK_S", 0.001)
    monkeypatch.setattr(run, "_SETTLE_LOOKS", 10)
    busy = Working(works)
    run.settle([busy, Working(0)])
    assert busy.looks == looks


def test_a_process_tells_what_it_uses(setup):
    works = "import threading\nthreading.Thread(target=lambda: sum(range(10**8)))"
    process = Process(server(code=f"{works}.start()\n{WELL}"), setup)
    assert process.cpu_s() == 0.0
    process.start()
    try:
        pause = threading.Event()
        for _ in range(1000):
            if process.cpu_s() > 0.05:
                break
            pause.wait(0.01)
        assert process.cpu_s() > 0.05
    finally:
        process.stop()


def test_a_process_that_ends_at_once_tells_its_last_words(setup):
    process = Process(server(code="import sys; sys.exit('bad flag')"), setup)
    with pytest.raises(StartError, match="bad flag"):
        process.start()
    process.stop()


def test_shown_commands_have_no_path_of_this_machine():
    for one in (*ALL, *DRAFTING):
        for for_vectors in (False, True):
            shown = one.shown(for_vectors=for_vectors, n_threads=2)
            assert "MODEL" in shown
            assert "/" not in shown


def test_a_servers_missing_figures_are_figures_of_loads():
    known = {figure for load in LOADS.values() for figure in load.figures}
    for one in ALL:
        assert {key for key in one.lacks if not key.endswith("_tokens")} <= known


def test_parts_name_loads_that_there_are():
    for part in plan.parts():
        assert set(part.loads) <= set(LOADS)
        assert part.rounds >= 1


def test_parts_are_chosen_by_model_and_load(tmp_path):
    (part,) = plan.chosen(["smollm2"], ["cold"], 7, quick=False)
    assert (part.loads, part.rounds) == (("cold",), 7)
    assert {p.model for p in plan.chosen([], [], None, quick=True)} == {
        part.model for part in plan.parts()
    }
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF")
    (part,) = plan.chosen([str(own)], ["streams"], None, quick=False)
    assert part.file() == own


@pytest.mark.parametrize(
    ("models", "loads", "said"),
    [
        (["nobody"], [], "neither a file nor"),
        ([], ["nothing"], "none of"),
        (["minilm"], ["cold"], "no load"),
    ],
)
def test_unknown_names_are_told(models, loads, said):
    with pytest.raises(SystemExit, match=said):
        plan.chosen(models, loads, None, quick=False)


def test_texts_are_as_long_as_asked_the_same_by_seed_and_else_new():
    def count(text):
        return len(text.split())

    one, same, other = (Prompts(count, seed) for seed in ("a", "a", "b"))
    text = one.text(50)
    assert count(text) == 50
    assert same.text(50) == text
    assert other.text(50).split()[:3] != text.split()[:3]
    assert one.text(50).split()[:3] != text.split()[:3]


def test_the_cost_of_a_run_is_that_of_its_steps(tmp_path):
    part = small_part(tmp_path, (server("a"),), ("cold",), rounds=1)
    assert run.total_cost([part]) == LOADS["cold"].cost + 3.0
    assert run.total_cost([replace(part, weight=2.0)]) == 2 * run.total_cost([part])


@pytest.mark.parametrize(
    ("text", "shape", "is_fit"),
    [
        ('{"name": "A", "age": 3, "tags": []}', SCHEMA, True),
        ('{"name": "A", "age": 3, "tags": [', SCHEMA, False),
        ('{"name": "A", "age": 300, "tags": []}', SCHEMA, False),
        ('{"city": "B", "nights": 2, "breakfast": true}', ARGUMENTS, True),
        ("", ARGUMENTS, False),
    ],
)
def test_answers_are_held_against_their_shape(text, shape, is_fit):
    assert fits(text, shape) is is_fit


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"name": "A", "age": 3, "tags": []}', {"x_ok": 1.0, "x_tps": 5.0}),
        ('{"name": "A", "age": 300, "tags": []}', {"x_ok": 0.0, "x_tps": 5.0}),
        ('{"name": "A\n", "age": 3, "tags": []}', {"x_ok": 0.0, "x_tps": 5.0}),
        ("I would say: A", {"x_ok": 0.0}),
    ],
)
def test_speed_counts_where_an_answer_was_held_to_json(text, found):
    answer = Answer(1.0, (2.0,), 3.0, 10, None, text, "")
    assert held("x", answer, text, SCHEMA) == found

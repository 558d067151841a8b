"""Modules of the web build on each other; no two of them need each other."""

from graphlib import TopologicalSorter

import grimp


def test_no_modules_of_the_web_import_each_other_in_a_circle():
    # Imports for types alone count too: they tell who has to know whom.
    graph = grimp.build_graph("kinetic", cache_dir=None)
    web = {name for name in graph.modules if name.startswith("kinetic.web")}
    assert "kinetic.web.service" in web
    needs = {name: graph.find_modules_directly_imported_by(name) & web for name in web}
    TopologicalSorter(needs).prepare()  # raises CycleError, which names them

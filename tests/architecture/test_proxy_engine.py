"""The proxy's HTTP engine could be published by itself: of codehub it imports nothing but its own modules."""

import ast
from pathlib import Path

ENGINE = Path(__file__).parents[2] / "src" / "codehub" / "proxy" / "engine"
OWN = "codehub.proxy.engine"


def foreign_imports(code: str) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return [
        name for name in names if f"{name}.".startswith("codehub.") and not f"{name}.".startswith(f"{OWN}.")
    ]


def test_the_engine_imports_nothing_else_of_codehub() -> None:
    modules = sorted(ENGINE.glob("*.py"))
    assert modules
    assert {path.name: foreign_imports(path.read_text()) for path in modules} == {
        path.name: [] for path in modules
    }


def test_an_import_of_codehub_is_found() -> None:
    assert foreign_imports("from codehub.core.route import Route") == ["codehub.core.route"]
    assert foreign_imports("import codehub.logs\nfrom codehub.proxy.engine.rules import Rules") == [
        "codehub.logs"
    ]

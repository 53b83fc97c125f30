"""All benchmarks, one after another: `make bench`.

Each prints its figures side by side with a peer or a limit, as ratios.
"""

import importlib

SUITES = (
    "imports",
    "command",
    "persist",
    "engine",
    "archives",
    "api",
    "docker",
    "proxy",
    "hostile",
    "wake",
    "dashboard",
)


def main() -> None:
    for name in SUITES:
        print(f"\n== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()

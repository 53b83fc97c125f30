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
    "local_start",
    "docker",
    "kubernetes",
    "proxy",
    "hostile",
    "wake",
    "dashboard",
    "rolling",
    "entering",
    "kubernetes_scale",
    "crowd",
)


def main() -> None:
    for name in SUITES:
        print(f"\n== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()

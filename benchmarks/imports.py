"""What starting costs: `import codehub.core` beyond bare Python, and `codehub --help` as a multiple of
`python -c pass`.
"""

import os
import statistics
import subprocess
import sys
import time

REPETITIONS = 15
_ALL = (
    "import codehub.core.transitions, codehub.core.idle, codehub.core.history, codehub.core.garbage, "
    "codehub.core.progress"
)


def main() -> None:
    commands = {
        "python -c pass": ["-c", "pass"],
        "import codehub.core": ["-c", "import codehub.core"],
        "all modules of it": ["-c", _ALL],
        "codehub --help": ["-m", "codehub", "--help"],
    }
    for arguments in commands.values():
        seconds(arguments)
    durations_s: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(REPETITIONS):
        for name, arguments in commands.items():
            durations_s[name].append(seconds(arguments))
    median = {name: statistics.median(times) for name, times in durations_s.items()}
    bare = median["python -c pass"]
    for name, value in median.items():
        print(f"{name:22} median of {REPETITIONS}: {value * 1000:6.1f} ms")
    for name in ("import codehub.core", "all modules of it"):
        print(f"{name}, beyond bare Python: {(median[name] - bare) * 1000:.1f} ms (target: under 50)")
    print(f"codehub --help / python -c pass: {median['codehub --help'] / bare:.1f}x (target: at most 15)")


def seconds(arguments: list[str]) -> float:
    # Whoever runs it has bytecode, whatever this shell says.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True, env=environment)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()

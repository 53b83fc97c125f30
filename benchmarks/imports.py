"""What starting costs: `import codehub.core` beyond bare Python, and `codehub --help` as a multiple of `python -c pass`."""

import statistics
import subprocess
import sys
import time

REPETITIONS = 15


def main() -> None:
    commands = {
        "python -c pass": ["-c", "pass"],
        "import codehub.core": ["-c", "import codehub.core.settle, codehub.core.idle, codehub.core.history"],
        "codehub --help": ["-m", "codehub", "--help"],
    }
    for arguments in commands.values():
        seconds(arguments)
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(REPETITIONS):
        for name, arguments in commands.items():
            taken[name].append(seconds(arguments))
    median = {name: statistics.median(times) for name, times in taken.items()}
    bare = median["python -c pass"]
    for name, value in median.items():
        print(f"{name:22} median of {REPETITIONS}: {value * 1000:6.1f} ms")
    print(
        f"importing codehub.core beyond bare Python: {(median['import codehub.core'] - bare) * 1000:.1f} ms (target: under 50)"
    )
    print(f"codehub --help / python -c pass: {median['codehub --help'] / bare:.1f}x (target: at most 15)")


def seconds(arguments: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()

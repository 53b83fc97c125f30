"""Every reference leads somewhere: sections, contracts, rules, decisions, tests, files and links."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "docs" / "spec"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SOURCES = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "docs")
    for suffix in ("py", "md", "sql", "html", "js", "c")
    for path in (ROOT / folder).rglob(f"*.{suffix}")
)
WIDTH_MAX = 110
MADE = "<!-- made by `make docs` from the code: do not edit -->"

SECTION = re.compile(r"§(\d+(?:\.\d+)?)")
PART = re.compile(r"§(\d+(?:\.\d+)?), ([A-Z][\w-]+)")
WIRE_PART = re.compile(r'\bwire\.md,? "?([A-Z][a-z]+)')
_NUMBERS = r"(\d+(?:(?:, | and |\u2013| to )\d+)*)"
CONTRACT = re.compile(rf"\bcontracts? {_NUMBERS}", re.IGNORECASE)
RULE = re.compile(rf"\bsecurity(?:\.md)? {_NUMBERS}", re.IGNORECASE)
DECISION = re.compile(r"\bADRs? (\d{4})\b")
NORM = re.compile(r"(?<![\w/-])(spec|wire|security|house|style|components)\.md\b")
TEST = re.compile(r"`(tests/[^`:]*)(?:::([^`]*))?`")
LINK = re.compile(r"(?:\]\(|^\[[^\]]+\]: |src=\")(?!https?:|mailto:)([^)\s\"]+)", re.MULTILINE)
FILE_LINK = re.compile(r"\[`?([\w/.-]+\.(?:py|sql))`?\]\(([^)\s]+)\)")
MODULE = re.compile(r"`([\w/]+\.(?:py|sql))`")
NAME = re.compile(r"`(\w+)`, \[([\w/.]+)\]")
HEADING = re.compile(r"^#{1,6} +(.+?)\s*$")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def headings(path: Path) -> list[str]:
    """Return the headings of a page. What stands in a block of code is none."""
    titles, in_code = [], False
    for line in text_of(path).splitlines():
        if line.startswith("```"):
            in_code = not in_code
        elif not in_code and (match := HEADING.match(line)):
            titles.append(match[1])
    return titles


def anchor(heading: str) -> str:
    """Return the anchor that GitHub makes of a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def numbers(listed: str) -> Iterator[int]:
    """Yield each number of "1, 3 and 5" or "3 to 5"."""
    for first, last in re.findall(r"(\d+)(?:(?:\u2013| to )(\d+))?", listed):
        yield from range(int(first), int(last or first) + 1)


SPEC_HEADINGS = [heading for page in sorted(SPEC.glob("*.md")) for heading in headings(page)]
SECTIONS = {match[1] for heading in SPEC_HEADINGS if (match := re.match(r"§(\d+(?:\.\d+)?) ", heading))}
CONTRACTS = {
    int(match[1])
    for heading in headings(SPEC / "contracts.md")
    if (match := re.match(r"Contract (\d+): ", heading))
}
RULES = {
    int(match[1]) for heading in headings(SPEC / "security.md") if (match := re.match(r"(\d+) ", heading))
}
DECISIONS = {path.name[:4] for path in (ROOT / "docs" / "adr").glob("0*.md")}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def page_of(section: str) -> Path:
    """Return the page that has this section."""
    title = re.compile(rf"§{re.escape(section)} ")
    return next(page for page in sorted(SPEC.glob("*.md")) if any(map(title.match, headings(page))))


def has_heading(page: Path, part: str) -> bool:
    return any(heading.startswith(part) for heading in headings(page))


def test_the_specification_has_its_sections_contracts_and_rules() -> None:
    assert {"1", "2", "2.1", "2.2", "2.3", "2.4", "2.5", *map(str, range(3, 15))} <= SECTIONS
    assert set(range(1, 16)) == CONTRACTS
    assert set(range(1, 33)) == RULES
    titles = [heading for heading in SPEC_HEADINGS if heading.startswith("§")]
    assert len(titles) == len(SECTIONS), "a section stands in one place"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_every_reference_to_the_specification_resolves(path: Path) -> None:
    text = text_of(path)
    missing = [f"§{number}" for number in SECTION.findall(text) if number not in SECTIONS]
    for kind, pattern, known in (("contract", CONTRACT, CONTRACTS), ("security", RULE, RULES)):
        listed = [number for reference in pattern.findall(text) for number in numbers(reference)]
        missing += [f"{kind} {number}" for number in listed if number not in known]
    missing += [f"ADR {number}" for number in DECISION.findall(text) if number not in DECISIONS]
    parts = [(page_of(section), part) for section, part in PART.findall(text)]
    parts += [(SPEC / "wire.md", part) for part in WIRE_PART.findall(text)]
    missing += [f"{page.name} {part}" for page, part in parts if not has_heading(page, part)]
    missing += [f"{name}.md" for name in NORM.findall(text) if not (SPEC / f"{name}.md").exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_link_leads_to_a_file_and_an_anchor(page: Path) -> None:
    for target in LINK.findall(text_of(page)):
        place, _, wanted = target.partition("#")
        aim = (page.parent / place).resolve() if place else page
        assert aim.exists(), f"{target} is not there"
        if wanted:
            assert wanted in map(anchor, headings(aim)), f"{target} has no such heading"
    for label, target in FILE_LINK.findall(text_of(page)):
        assert target.endswith(label), f"{label} is called {target} by now"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    for path, name in TEST.findall(text_of(page)):
        assert (ROOT / path).exists(), f"{path} is not there"
        if name:
            is_there = re.search(rf"^\s*(async )?def {re.escape(name)}\(", text_of(ROOT / path), re.MULTILINE)
            assert is_there, f"{path} has no {name}"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    missing = [
        name for name in MODULE.findall(text_of(page)) if not any(path.match(name) for path in SOURCES)
    ]
    assert not missing


@pytest.mark.parametrize("page", ["names.md", "names.ko.md"])
def test_every_name_of_the_seeds_is_where_the_page_says(page: str) -> None:
    text = text_of(SPEC / page)
    places = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", text, re.MULTILINE))
    names = NAME.findall(text)
    assert len(names) >= 60
    for name, place in names:
        assert re.search(rf"\b{name}\b", text_of(SPEC / places[place])), f"{place} has no {name}"


def proofs(page: str, title: str) -> dict[str, str]:
    """Return what stands below each heading of this form."""
    parts = re.split(r"^## ", text_of(SPEC / page), flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts if re.match(title, part)}


@pytest.mark.parametrize("contract", proofs("contracts.md", r"Contract \d+"))
def test_every_contract_names_the_tests_that_prove_it(contract: str) -> None:
    assert TEST.search(proofs("contracts.md", r"Contract \d+")[contract])


@pytest.mark.parametrize("rule", proofs("security.md", r"\d+ "))
def test_every_security_rule_names_its_tests_or_is_to_come(rule: str) -> None:
    is_to_come = "(to come" in rule
    assert bool(TEST.search(proofs("security.md", r"\d+ ")[rule])) is not is_to_come


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_no_line_is_too_long(page: Path) -> None:
    """But for pages that are made from the code, and rows of tables, which can't be broken."""
    text = text_of(page)
    if MADE in text:
        return
    is_norm = page.parent == SPEC
    lines = [line for line in text.splitlines() if is_norm or not line.startswith("|")]
    assert [line for line in lines if len(line) > WIDTH_MAX] == []

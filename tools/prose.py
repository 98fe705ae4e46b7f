"""Style check of the prose: docstrings, comments, messages, test names, Markdown, templates and settings files.

``python -m tools.prose [PATH ...]``, which ``make check`` runs too, prints one line per finding and exits with 1 if
there are any. ``--count`` prints the number of findings of each rule. CONTRIBUTING.md describes the style; these rules
are its floor.

To allow a phrase, give the reason on its line: ``# prose: allow behind (HTTP proxies)``. In a multi-line string, write
it on the last line of the string; in Markdown and HTML, on the first or last line of the paragraph.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
EXCLUDED = ("tools/prose.py", "tests/tools/test_prose.py", "docs/glossary.md", "tools/fuzz/corpus/", "constraints.txt")
SUFFIXES = (
    ".py",
    ".md",
    ".rst",
    ".yaml",
    ".yml",
    ".toml",
    ".html",
    ".ipynb",
    ".env",
    ".Dockerfile",
    ".sbatch",
    "Makefile",
)


class Rule(NamedTuple):
    """A phrase to avoid, and what to write instead."""

    name: str
    pattern: re.Pattern[str]
    instead: str


def rule(name: str, pattern: str, instead: str) -> Rule:
    """Return a rule whose pattern ignores case."""
    return Rule(name, re.compile(pattern, re.IGNORECASE), instead)


INTERROGATIVES = "What|Who|Whose|Whom|Whether|How|Why|Which|Where|When"
OPENING = rule("opening", rf"\A\s*({INTERROGATIVES})\b", "a noun phrase or an imperative verb")

RULES = (
    rule(
        "is no",
        r"(?<!there )\b(is|are|was|were|be|been) ((?-i:none\b)|no (?!longer|more|less|fewer|better|worse|different)\w)",
        "is not a(n)",
    ),
    rule("so many", r"\bso (many|much)\b(?! (that|as|so)\b)", "n, that many"),
    rule("let go of", r"\b(lets?|letting) go\b", "release, free"),
    rule("at hand", r"\bat hand\b", "available"),
    rule("in place of", r"\bin place of\b", "instead of"),
    rule("said", r"\b(is|are|was|were|be) said\b|\bsa(ys|y|id) so\b", "log, report, warn"),
    rule("who calls", r"\b(who|that) calls\b|\bwho(so)?ever\b", "the caller"),
    rule("meant", r"\b(is|are|was|were) meant\b(?! (to|for)\b)", "applies to"),
    rule("beyond", r"\bbeyond\b", "more than, exceeds, outside"),
    rule("but for", r"\bbut for\b", "except"),
    rule("of its own", r"\bof (its|his|our|their|your|one's|my) own\b", "its own, a separate, custom"),
    rule(
        "archaic",
        r"\b(amid|amidst|thereof|therein|whereof|wherein|till|shall|anew|hitherto|mend(s|ed|ing)?)\b",
        "plain words",
    ),
    rule("mistake", r"\bmistakes?\b", "error"),
    rule("left out", r"\b(left|leaves?|leaving) (them |it |one |these |those )?out\b", "drop, skip, omit"),
    rule("take up", r"\b(takes?|taken|taking|took) up\b", "resume; occupy"),
    rule("the rest", r"\bthe rest\b(?! of\b)", "the remaining"),
    rule("behind", r"\bbehind\b", "after (order); from (cause)"),
    rule(
        "lie",
        r"\b(lie|lies|lying|lain) (in|on|at|as|so|before|behind|beside|within|there|side|outside|inside|under|together|"
        r"next|somewhere|elsewhere|around|between|beyond|above|below|by|apart|one|where|within|close|farther|with)\b"
        r"|\b(how|where|as|what|that|which|it|they) (lie|lies)\b",
        "is, is stored",
    ),
    rule("stand", r"\bstands? (in|at|on|before|after|beside|there|behind|above|below)\b", "is, is written"),
    rule("stranger", r"\bstrangers?\b|\bto do (it )?harm\b", "untrusted, malicious"),
    rule("told", r"\b(is|are|was|were|be|been|being|gets?) told\b", "receives, is notified"),
    rule("judge", r"\bjudg(e|es|ed|ing|e?ments?)\b", "evaluate, score, check"),
    rule("asked", r"\b(is|are|was|were|be|been) asked\b|\basked of\b", "apply to, check, request"),
    rule(
        "personified",
        r"\b(cache|process|file|column|table|worker|model|kernel|program|rank|op|stage|reader|backend|row|value)(e?s)? "
        r"(knows?|knew|wants?|meets?|met|asks?|remembers?|speaks?|tells?|says?|said)\b",
        "say what the code does",
    ),
    rule("driver", r"\bthat leads?\b|\bleading process\b|\bcrews?\b", "driver, workers"),
    rule("metaphor", r"\b(shelf|shelves|lessons?|curriculum|entrants?|contests?)\b", "the field's word"),
    rule("the like", r"\bthe like\b", "such as ..."),
    rule("of ours", r"\bof (ours|theirs|mine|yours)\b", "our, gpupipe's"),
    rule("beside", r"\bbeside\b", "next to, with, in addition to, compared with"),
    rule("somebody", r"\b(some|any|no|every)(body|one's)\b", "the user, another process, a caller"),
    rule("remark", r"\bremark(s|ed)?\b", "warning, note"),
    rule("go on", r"\b(go|goes|went|going) on (where|from|with|until|as|after|without)\b", "continue"),
    rule(
        "is of",
        r"\b(is|are|was|were) of (a|an|another|one|the|no|some|several|this|that|other|two|different)\b",
        "has, belongs to",
    ),
)


class Finding(NamedTuple):
    """A phrase to avoid in a file of the repository."""

    path: str
    line: int
    rule: Rule
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule.name}: {self.text!r}; write: {self.rule.instead}"


class Passage(NamedTuple):
    """Text that a person reads, from its first line to its last."""

    first: int
    last: int
    text: str
    is_docstring: bool = False


ALLOWANCE = re.compile(r"prose: allow (?P<names>[\w ]+(, [\w ]+)*) \(.+\)")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line of each docstring of a module, a class or a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            yield node.body[0].lineno, node.body[0].end_lineno or node.body[0].lineno


def of_python(source: str) -> Iterator[Passage]:
    """Yield strings, comments, and the names of test functions as sentences."""
    tree = ast.parse(source)
    places = set(docstrings(tree))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if tokenize.tok_name[token.type] in ("STRING", "COMMENT", "FSTRING_MIDDLE"):
            lines = token.start[0], token.end[0]
            is_docstring = token.type == tokenize.STRING and lines in places
            text = re.sub(r"""\A[a-zA-Z]*("{3}|'{3}|"|')""", "", token.string) if is_docstring else token.string
            yield Passage(*lines, text, is_docstring)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield Passage(node.lineno, node.lineno, node.name.replace("_", " "))


def of_markdown(source: str) -> Iterator[Passage]:
    """Yield paragraphs without their code."""
    without_blocks = re.sub(
        r"^( *)```.*?^\1```", lambda block: "\n" * block.group().count("\n"), source, flags=re.M | re.S
    )
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", without_blocks):
        yield Passage(
            line, line + paragraph.count("\n"), re.sub(r"`[^`]*`", lambda code: "_" * len(code.group()), paragraph)
        )
        line += paragraph.count("\n")


def of_notebook(source: str) -> Iterator[Passage]:
    """Yield the Markdown cells of a notebook, and the comments of its code; lines count from 1 in each cell."""
    for cell in json.loads(source)["cells"]:
        text = "".join(cell["source"])
        yield from of_markdown(text) if cell["cell_type"] == "markdown" else of_lines(text)


def of_lines(source: str) -> Iterator[Passage]:
    """Yield the lines of a settings file or a template."""
    for number, line in enumerate(source.splitlines(), 1):
        yield Passage(number, number, line)


READERS = {".py": of_python, ".md": of_markdown, ".ipynb": of_notebook}


def findings(path: str, source: str) -> Iterator[Finding]:
    """Yield what the rules find in a file, in the order of its lines.

    Args:
        path: The name of the file; its suffix says how it is read.
        source: The text of the file.
    """
    lines = source.splitlines()
    for passage in READERS.get(Path(path).suffix, of_lines)(source):
        allowed: set[str] = set()
        for line in {passage.first, passage.last} & set(range(1, len(lines) + 1)):
            if match := ALLOWANCE.search(lines[line - 1]):
                allowed |= set(match["names"].split(", "))
        # the titles of the gallery are questions
        rules = (OPENING, *RULES) if passage.is_docstring and not path.startswith("docs/gallery/") else RULES
        text = re.sub(r"\s+#? *", lambda gap: " " * len(gap.group()), passage.text)
        for each in rules:
            if each.name not in allowed:
                for match in each.pattern.finditer(re.sub(r"\s", " ", text)):
                    line = passage.first + passage.text[: match.start()].count("\n")
                    yield Finding(path, line, each, match.group().strip()[:60])


def tracked_files(paths: list[str]) -> list[str]:
    """Return the files of the repository that people read, relative to its root."""
    listed = subprocess.run(["git", "ls-files", "--", *paths], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.splitlines() if name.endswith(SUFFIXES) and not name.startswith(EXCLUDED)]


def main() -> int:
    """Print the findings, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.prose", description="Check the prose of the repository.")
    parser.add_argument("paths", nargs="*", default=["."], help="files and folders, relative to the repository's root")
    parser.add_argument("--count", action="store_true", help="print the number of findings of each rule")
    arguments = parser.parse_args()
    found = [
        finding
        for name in tracked_files(arguments.paths)
        if (ROOT / name).is_file()
        for finding in sorted(findings(name, (ROOT / name).read_text("utf-8")), key=lambda finding: finding.line)
    ]
    if arguments.count:
        for name, count in Counter(finding.rule.name for finding in found).most_common():
            print(f"{count:6,} {name}")
    else:
        print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(found):,} findings", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

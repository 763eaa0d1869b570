"""Every path that HACKING.md names exists."""

import re

from source_files import ROOT, report

# In backquotes, with a slash or the ending of a source file.
PATH = re.compile(r"`(\.?[\w.-]+(?:/[\w.*{},-]*)+|[\w-]+\.(?:cpp|hpp|h|py|md|txt|toml|cmake))`")


def exists(name):
    return any(ROOT.glob(name.rstrip("/"))) if "*" in name else (ROOT / name).exists()


def alternatives(name):
    """src/{a,b}.cpp names two files."""
    match = re.search(r"\{([^}]*)\}", name)
    if match is None:
        return [name]
    return [
        path
        for option in match[1].split(",")
        for path in alternatives(name[: match.start()] + option + name[match.end() :])
    ]


text = (ROOT / "HACKING.md").read_text()
report(
    [
        f"HACKING.md: {path} does not exist"
        for name in dict.fromkeys(PATH.findall(text))
        for path in alternatives(name)
        if not exists(path)
    ]
)

"""The version is the same wherever it stands."""

import re

from source_files import report, text_of

PLACES = {
    "include/tack/config.hpp": r'#define TACK_VERSION "([^"]+)"',
    "pyproject.toml": r'^version = "([^"]+)"',
    "CMakeLists.txt": r"project\(Tack VERSION (\S+)",
}


def found(path, pattern):
    match = re.search(pattern, text_of(path), re.MULTILINE)
    return match and match[1]


versions = {path: found(path, pattern) for path, pattern in PLACES.items()}
header = text_of("include/tack/config.hpp")
numbers = re.findall(r"#define TACK_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)
versions["include/tack/config.hpp, its numbers"] = ".".join(numbers)
same = len(set(versions.values())) == 1
report([] if same else [f"{path}: version {version}" for path, version in versions.items()])

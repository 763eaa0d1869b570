"""No file has more than 1,000 lines, none is left unfinished."""

import re
from pathlib import Path

from source_files import report, text_of, tracked

MAX_LINES = 1000
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
# They name the words in order to find them.
NAMING_THE_WORDS = {f"tests/lint/{Path(__file__).name}"}

problems = []
for path in tracked():
    text = text_of(path)
    if text is None:
        continue
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        problems.append(f"{path}: {len(lines)} lines; beyond {MAX_LINES} it is two topics")
    if path not in NAMING_THE_WORDS:
        problems += [
            f"{path}:{number}: {match[0]}"
            for number, line in enumerate(lines, 1)
            if (match := UNFINISHED.search(line))
        ]
report(problems)

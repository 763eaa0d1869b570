"""The text of a function, as it was when the function was decorated."""

from __future__ import annotations

import linecache

_VARIADIC_OR_RESUMABLE = 0x04 | 0x08 | 0x20 | 0x80 | 0x200  # CO_* of inspect


class Source:
    """Cheap to make: it keeps the file's lines and parses none of them."""

    def __init__(self, function):
        code = function.__code__
        self.function = function
        self.name = code.co_name
        self.file = code.co_filename
        self.line = code.co_firstlineno
        self.parameters = code.co_varnames[: code.co_argcount]
        linecache.checkcache(self.file)
        self._lines = linecache.getlines(self.file, function.__globals__)

    def refused_signature(self):
        """Whether the language refuses the function whatever its body is."""
        function, code = self.function, self.function.__code__
        return bool(
            code.co_flags & _VARIADIC_OR_RESUMABLE
            or code.co_kwonlyargcount
            or function.__defaults__
            or self.name == "<lambda>"
            or self.parameters[:1] in (("self",), ("cls",))
        )

    def text(self):
        """The lines of the function, its decorators included; empty where there is no source."""
        lines = self._lines[self.line - 1 :]
        return (self._block_by_indentation(lines) or _block_by_tokens(lines)) if lines else ""

    def _block_by_indentation(self, lines):
        """The function's lines; empty where that takes a tokenizer.

        The import of inspect and its tokenizing would take most of a process's first launch.
        """
        indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
        attempts = 50
        for end in range(1, len(lines) + 1):
            following = lines[end].lstrip("\f") if end < len(lines) else "the end"
            inside = following.startswith((indent + " ", indent + "\t"))
            if inside or following.lstrip()[:1] in ("", "#"):
                continue
            # Within a string or brackets any indentation may follow: then this does not parse.
            if node := self.parse("".join(lines[:end])):
                return "".join(lines[: node.end_lineno + 1 - self.line])
            attempts -= 1
            if attempts == 0:
                break
        return ""

    def parse(self, text):
        """The function's ast node with the file's line numbers; None where `text` is not it."""
        import ast

        indented = text[:1] in (" ", "\t")
        try:
            tree = ast.parse("if 1:\n" + text if indented else text)
        except SyntaxError:
            return None
        ast.increment_lineno(tree, self.line - 1 - indented)
        for node in tree.body[0].body if indented else tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == self.name:
                return node
        return None


def _block_by_tokens(lines):
    import inspect
    import tokenize

    try:
        return "".join(inspect.getblock(lines))
    except (SyntaxError, tokenize.TokenError):
        return ""

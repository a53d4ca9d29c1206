"""The report as a tree: what tests of the page look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "br", "hr", "img", "input", "wbr"})
SELF_CLOSED = frozenset({"path", "rect", "use", "g", "defs", "text"})
"""Elements of drawings, which may close themselves."""


@dataclass(slots=True)
class Node:
    """One element."""

    tag: str
    attrs: dict[str, str]
    children: list[Node | str] = field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        """Return this element and all below it, in the order of the page."""
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.walk()

    def all(self, *tags: str) -> list[Node]:
        """Return every element of these tags."""
        return [node for node in self.walk() if node.tag in tags]

    def one(self, identity: str) -> Node:
        """Return the element with an id."""
        (found,) = [node for node in self.walk() if node.attrs.get("id") == identity]
        return found

    @property
    def text(self) -> str:
        """The text in it, blanks folded."""
        return " ".join(self._text().split())

    def _text(self) -> str:
        return " ".join(child if isinstance(child, str) else child._text() for child in self.children)


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("root", {})
        self.open = [self.root]
        self.problems: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.problems.append(f"{tag} at {self.getpos()} has an attribute twice")
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in SELF_CLOSED:
            self.problems.append(f"{tag} at {self.getpos()} closes itself")
        self.open[-1].children.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1].tag != tag:
            self.problems.append(f"</{tag}> at {self.getpos()} closes {self.open[-1].tag}")
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(page: str) -> Node:
    """Return the page as a tree; fails where an element is not closed, or closed in the wrong place."""
    tree = _Tree()
    tree.feed(page)
    tree.close()
    assert tree.problems == []
    assert [node.tag for node in tree.open] == ["root"]
    return tree.root

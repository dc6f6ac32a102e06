"""Cases of our own, written from the text of the specification: a document, and one change to it.

The name of a function says what it does to a document that is in order, its docstring which rule that
keeps, breaks (MUST) or neglects (SHOULD). Each case is also shown to the schemas of the specification.
Where these are content with a document that the text forbids, the case says so: `unseen` by them. Where a
suite of the specification has a document in order that breaks the same rule, it says that too: `doubtful`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .documents import VERSIONS, Document
from .suites import Case

Change = Callable[[Document], None]


@dataclass(frozen=True)
class Rule:
    change: Change
    expected: str
    kind: str
    versions: tuple[str, ...]
    unseen: tuple[str, ...]
    doubtful: tuple[str, ...]
    """The versions whose suite accepts a document that breaks the rule: alone, it is only noted."""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.change.__name__

    def document(self, version: str) -> Document:
        document = Document(version, self.kind, **self.options)
        self.change(document)
        return document


RULES: list[Rule] = []


def _rule(
    expected: str,
    kind: str,
    versions: str | tuple[str, ...],
    unseen: bool | str | tuple[str, ...],
    options: dict[str, Any],
    doubtful: tuple[str, ...] = (),
) -> Callable[[Change], Change]:
    which = (versions,) if isinstance(versions, str) else versions
    if isinstance(unseen, bool):
        unseen = which if unseen else ()
    elif isinstance(unseen, str):
        unseen = (unseen,)

    def register(change: Change) -> Change:
        if not change.__doc__:
            raise ValueError(f"{change.__name__} does not say which rule it is about")
        if any(rule.name == change.__name__ for rule in RULES):
            raise ValueError(f"{change.__name__} is there twice")
        RULES.append(Rule(change, expected, kind, which, unseen, doubtful, options))
        return change

    return register


def keeps(
    kind: str = "image",
    versions: str | tuple[str, ...] = VERSIONS,
    noted: bool = False,
    **options: Any,
) -> Callable[[Change], Change]:
    """Nothing is to be said of the document, except that something is unusual if that is `noted`."""
    return _rule("valid" if noted else "spotless", kind, versions, False, options)


def breaks(
    kind: str = "image",
    versions: str | tuple[str, ...] = VERSIONS,
    unseen: bool | str | tuple[str, ...] = False,
    doubtful: tuple[str, ...] = (),
    **options: Any,
) -> Callable[[Change], Change]:
    return _rule("damage", kind, versions, unseen, options, doubtful)


def neglects(
    kind: str = "image", versions: str | tuple[str, ...] = VERSIONS, **options: Any
) -> Callable[[Change], Change]:
    return _rule("notice", kind, versions, False, options)


def cases() -> Iterator[tuple[Rule, Case]]:
    """Every case in every version that it is about."""
    for rule in RULES:
        for version in rule.versions:
            document = rule.document(version).attributes
            name = f"{rule.kind}/{rule.name}"
            expected = "notice" if version in rule.doubtful else rule.expected
            yield rule, Case("own", version, name, document, expected, rule.kind)


# The modules below register their cases here when they are imported.
from . import own_image, own_plate, own_transformations  # noqa: E402, F401

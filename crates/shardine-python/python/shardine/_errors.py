"""Exceptions. Each says in `kind` whose fault it is, in a word that stays the same."""

from __future__ import annotations


class ShardineError(Exception):
    """Base of all errors that Shardine raises.

    `kind` is one of `not-found`, `damaged`, `request`, `unsupported`, `exists`, `busy`, `race`,
    `storage` and `cancelled`. `hint` says what to do next, where there is something to suggest.
    """

    kind: str = "request"

    def __init__(
        self,
        message: str = "",
        hint: str | None = None,
        *,
        object: str | None = None,
        shard: tuple[int, ...] | None = None,
        chunk: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        #: The key of the damaged object in its store, where one is named.
        self.object = object
        #: The position of the damaged shard in its grid, where one is named.
        self.shard = shard
        #: The position of the damaged chunk in its grid, where one is named.
        self.chunk = chunk

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        return _remake, (type(self), self.message, self.__dict__)


def _remake(kind: type[ShardineError], message: str, state: dict[str, object]) -> ShardineError:
    error = kind(message)
    error.__dict__.update(state)
    return error


class NotFoundError(ShardineError, FileNotFoundError):
    """There is no such data set, level or object."""

    kind = "not-found"
    __str__ = ShardineError.__str__


class MissingKeyError(NotFoundError, KeyError):
    """A group has no such node, or a store of values no such key."""


class DamagedError(ShardineError):
    """Stored data contradicts its format. Restore or repair it."""

    kind = "damaged"


class RequestError(ShardineError, ValueError):
    """The call asks for something that makes no sense here."""

    kind = "request"


class UnsupportedError(ShardineError, NotImplementedError):
    """The data is sound, but Shardine, or the store, cannot do that."""

    kind = "unsupported"


class ExistsError(ShardineError, FileExistsError):
    """Something is already there."""

    kind = "exists"
    __str__ = ShardineError.__str__


class ConflictError(ShardineError):
    """Someone else works on it or has changed it: `kind` is `busy` or `race`. Try again."""

    kind = "race"


class StorageError(ShardineError, OSError):
    """A disk, a network or a server failed. The data is as it was."""

    kind = "storage"
    __str__ = ShardineError.__str__


class Cancelled(ShardineError):
    """The caller stopped it. The same call resumes."""

    kind = "cancelled"

"""What is said when a store has failed: to those whose commit it was, to those behind it, and to whoever comes meanwhile."""

from __future__ import annotations

from typing import NamedTuple

from ortoo.model.errors import NotOwnerError, OrtooError, OutcomeUnknownError, StoreFailedError

NOT_OPEN = "the queue is not open yet; use it in `async with`, or await its open()"


class Errors(NamedTuple):
    in_flight: OrtooError
    behind: OrtooError
    refusal: OrtooError


def words_for(error: Exception) -> Errors:
    if isinstance(error, NotOwnerError):  # the store refused it as a whole, and will refuse all that follows
        return Errors(error, error, error)
    if isinstance(error, StoreFailedError) and error.is_certain:
        nothing = StoreFailedError(f"the store refused ({error}); nothing was written, try again")
        return Errors(
            nothing, nothing, StoreFailedError(f"the store refused ({error}); the queue is recovering, try again")
        )
    return Errors(
        OutcomeUnknownError(f"the store failed while writing ({error}); the outcome is unknown"),
        StoreFailedError(f"the store failed ({error}); nothing was written, try again"),
        StoreFailedError(f"the store failed ({error}); the queue is recovering, try again"),
    )


def unopened(error: OSError) -> StoreFailedError:
    return StoreFailedError(f"the store cannot be opened: {error}")

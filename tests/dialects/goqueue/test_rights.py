"""Every route asks the caller's own link: an admin is allowed its sample, and who may do nothing is refused."""

from __future__ import annotations

from ortoo.dialects.goqueue import GOQUEUE
from tests.dialects.goqueue.rights import ask_all
from tests.dialects.goqueue.samples import SAMPLES

_ABSENT = ("/delayed/", "/traces/{trace}")  # nothing is delayed, and the sample's trace is none


async def test_an_admin_is_allowed_everything() -> None:
    for name, answer in (await ask_all(GOQUEUE, SAMPLES, "admin")).items():
        allowed = (200, 201, 204, *((409,) if name.endswith("/topics") else ()))
        if any(part in name for part in _ABSENT):
            allowed = (*allowed, 404)
        assert answer.status_code in allowed, (name, answer.text)


async def test_who_may_do_nothing_is_refused() -> None:
    for name, answer in (await ask_all(GOQUEUE, SAMPLES, "nobody")).items():
        assert answer.status_code in (403, 404), (name, answer.text)
        assert sorted(answer.json()) == ["code", "error"]

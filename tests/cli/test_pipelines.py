"""Jobs that report their runs, on the command line."""

from __future__ import annotations

from pathlib import Path

import ortoo
from ortoo.model.pipelines import RunReport

from .program import Place


def test_jobs_are_listed_and_forgotten(directory: Path, at_directory: Place) -> None:
    place = at_directory
    assert place.ok("pipeline", "list", "--json").json == {"pipelines": [], "total": 0}
    with ortoo.open_sync(directory) as queue:
        queue.report_run("nightly", RunReport(run="1", kind="archive", state="failed", rows_in=1_234, error="no disk"))
        queue.report_run("theirs", RunReport(run="1", kind="flow"), namespace="shop")
    [heading, row] = place.ok("pipeline", "list").lines
    assert heading.split()[:2] == ["job", "state"]
    assert row.split()[:2] == ["nightly", "failed"]
    assert "1234" in row
    assert "no disk" in row
    found = place.ok("pipeline", "list", "--all", "--json").json
    assert [info["job"] for info in found["pipelines"]] == ["nightly", "theirs"]
    place.ok("pipeline", "forget", "nightly")
    assert place("pipeline", "forget", "nightly").code == 3

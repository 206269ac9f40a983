"""Says so when a wheel is built without the dashboard: it is left out, and everything else works."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DASHBOARD = "src/ortoo/doors/http/dashboard_files/index.html"


class Hook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable" and not Path(self.root, DASHBOARD).exists():
            self.app.display_warning(
                "the dashboard is not built, so this wheel is without it; run 'make dashboard' first"
            )

"""Values, limits and errors: the words every other part of Ortoo speaks. Nothing here does I/O or decides anything."""

"""Reading: topics, their history and their dead letters as tables."""

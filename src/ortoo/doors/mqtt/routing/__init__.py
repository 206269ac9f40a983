"""Who gets a message, and which retained ones a new subscription gets: indexes in memory, without I/O."""

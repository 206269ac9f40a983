"""Writing: a DataFrame's rows become messages, exactly once."""

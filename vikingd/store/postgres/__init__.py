"""A store in PostgreSQL, which several nodes share."""

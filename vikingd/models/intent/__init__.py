"""From a task and what was said before it to the queries that tell what the task needs."""

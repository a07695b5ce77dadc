"""The planner: it turns a task and its conversation into queries."""

"""The client of a chat model that answers in JSON; planner, extractor and describer use it."""

"""A chat endpoint that extracts memories, and conversations for it."""

from __future__ import annotations

PROFILE = "viking://user/memories/profile.md"
PREFERENCES = "viking://user/memories/preferences.md"
PLACES = "viking://user/memories/entities.md"

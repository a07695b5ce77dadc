"""Files to context drafts: Markdown, text, code, JSON lines."""

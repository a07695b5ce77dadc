"""Files into drafts of contexts: Markdown, text, code, JSON lines, PDF and the like."""

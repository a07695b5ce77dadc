"""Conversion of files to drafts of contexts: Markdown, text, code, JSON lines, PDF and others."""

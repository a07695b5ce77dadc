"""Phrases of time in questions, in English and Chinese, and the days that they mean."""

"""Tests of answers: search, retrieve, grep, intent and relations."""

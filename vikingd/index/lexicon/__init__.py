"""The lexicon: it divides texts into terms, hashes the terms, and keeps their postings."""

"""The lexicon: the terms of texts, their hashes and their postings."""

"""English stop words, negations, and words with which sentences begin."""

from __future__ import annotations

# Lucene's list, the words that questions are made of, and the parts of it's, don't and we'll.
# Negations are not stop words: "does not like" has another meaning.
_STOP_LISTED = """
a am an and are as at be been being but by can could d did do does doing for from had has have
having he her hers him his how i if in into is it its ll m may me might mine must my of on or our
ours re s shall she should so such t than that the their theirs them then there these they this
those to too us ve very was we were what when where which who whom whose why will with would you
your yours
"""
STOP_WORDS = frozenset(_STOP_LISTED.split())
NEGATIONS = frozenset(("no", "not"))
# Most sentences that begin with a stop word begin with one of these, so the capital says nothing.
_BEGINNINGS_LISTED = """
a an and as but by for from if in of so that the then there these they this those we with
"""
BEGINNINGS = frozenset(_BEGINNINGS_LISTED.split())

// The strength of a result: a number from 0 to 1, which its bar shows, and a word.

/** The words, the strongest first. */
export const STRENGTHS = ["strong", "fair", "weak"];

const LEAST = { strong: 0.6, fair: 0.35, weak: 0 }; // of the length of the bar

/** Tell whether an answer is probably about something else. */
export const isWeak = (reply) => ["STRENGTH_WEAK", "STRENGTH_NOTHING"].includes(reply.confidence?.strength);

/**
 * Return a function of a score: its strength. The best result has the probability that the scope is about the
 * question, so that its bar is full only if that is certain; the others have their share of it.
 */
export function strengths(reply, matches) {
  const best = Math.max(0.001, ...matches.map(({ score }) => score || 0));
  const all = reply.confidence ? reply.confidence.inScope || 0 : 1;
  return (score) => ((score || 0) / best) * all;
}

/** Return the word for a strength; no result of a weak answer is strong. */
export function wordOf(strength, reply) {
  if (isWeak(reply)) return "weak";
  return STRENGTHS.find((name) => strength >= LEAST[name]);
}

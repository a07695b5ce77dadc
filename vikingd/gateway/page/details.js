// The titles, times and metadata of results, which an answer does not have.
import { useEffect, useState } from "./vendor/vendor.js";
import { call } from "./api.js";

/**
 * Read the contexts of the results without their texts.
 * @param {Array<{uri: string}>} matches
 * @param {string} revision of the answer: a later one reads all again
 * @returns {Map<string, {title, time, metadata}>} by URI; a context that cannot be read is not there
 */
export function useDetails(matches, revision) {
  const [known, setKnown] = useState({ revision: "", contexts: new Map() });
  useEffect(() => {
    const before = known.revision === revision ? known.contexts : new Map();
    const missing = matches.filter(({ uri }) => !before.has(uri));
    if (!missing.length) return undefined;
    const abort = new AbortController();
    const read = ({ uri }) =>
      call("tree", { uri, pageSize: 1 }, abort.signal).then(
        (reply) => [uri, reply.contexts[0]],
        () => null, // it may be gone meanwhile: its result is shown without them
      );
    Promise.all(missing.map(read)).then((found) => {
      if (!abort.signal.aborted) setKnown({ revision, contexts: new Map([...before, ...found.filter(Boolean)]) });
    });
    return () => abort.abort();
  }, [revision, matches.map(({ uri }) => uri).join("\n")]);
  return known.contexts;
}

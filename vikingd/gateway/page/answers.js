// The answer to a question of a view: asked again when the question changes.
import { useEffect, useState } from "./vendor/vendor.js";
import { call } from "./api.js";

/**
 * Call an RPC, and again when the request changes. An answer stays until the next one is there.
 * @param {string} rpc
 * @param {object | null} request null asks nothing
 * @param {(error: Error) => void} fail called with an error; "" clears the one before
 * @returns {{answer: {reply, taken: number, request} | null, isBusy: boolean}} `taken` in milliseconds
 */
export function useAnswer(rpc, request, fail) {
  const [answer, setAnswer] = useState(null);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    fail(null);
    if (!request) {
      setAnswer(null);
      return undefined;
    }
    const abort = new AbortController();
    const started = performance.now();
    setBusy(true);
    call(rpc, request, abort.signal)
      .then((reply) => setAnswer({ rpc, reply, request, taken: performance.now() - started }))
      .catch(fail)
      .finally(() => abort.signal.aborted || setBusy(false));
    return () => abort.abort();
  }, [rpc, JSON.stringify(request)]);
  return { answer, isBusy };
}

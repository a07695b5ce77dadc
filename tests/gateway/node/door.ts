// Calls a daemon as its tests say: a JSON object on each line of stdin is a call, and each line of stdout is
// the outcome of one, in their order. A bigint is written as its digits and an "n".

import { createInterface } from "node:readline";
import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { connect, type Options, type Vikingd } from "./vikingd.js";

interface Call extends Options {
  url: string;
  name: "find" | "read" | "write" | "remember" | "recall";
  uri?: string;
  text?: string;
  minRevision?: string;
  expectedRevision?: string;
}

async function answer(to: Vikingd, call: Call): Promise<unknown> {
  const text = call.text ?? "";
  const uri = call.uri ?? "";
  const minRevision = BigInt(call.minRevision ?? 0);
  switch (call.name) {
    case "find": {
      const found = await to.retrieval.find({ query: text, targetUri: uri, minRevision });
      return {
        uris: [...found.memories, ...found.resources, ...found.skills].map((match) => match.uri),
        revision: found.revision,
      };
    }
    case "read": {
      const { context } = await to.contexts.get({ uri, minRevision });
      return { content: context?.content, revision: context?.revision };
    }
    case "write":
      return await to.contexts.put({ contexts: [{ uri, content: text, ...expected(call) }] });
    case "remember":
      return await to.memories.remember({ text, memoryType: "preferences" });
    case "recall": {
      const scope = { withGlobal: true };
      const recalled = await to.memories.recall({ query: text, minRevision, scope });
      return { memories: recalled.results.map(({ id, content }) => ({ id, content })) };
    }
  }
}

function expected({ expectedRevision }: Call): { expectedRevision?: bigint } {
  return expectedRevision === undefined ? {} : { expectedRevision: BigInt(expectedRevision) };
}

/** Returns an error as the client sees it; any other failure is thrown. */
function failure(error: unknown): unknown {
  if (!(error instanceof ConnectError)) throw error;
  const [info] = error.findDetails(ErrorInfoSchema);
  const [faults] = error.findDetails(BadRequestSchema);
  return {
    code: Code[error.code],
    message: error.rawMessage,
    reason: info?.reason,
    domain: info?.domain,
    metadata: info?.metadata,
    violations: faults?.fieldViolations.map(({ field, description }) => ({ field, description })),
  };
}

const digits = (_: string, value: unknown): unknown => (typeof value === "bigint" ? `${value}n` : value);

for await (const line of createInterface({ input: process.stdin })) {
  const call = JSON.parse(line) as Call;
  const outcome = await answer(connect(call.url, call), call).then(
    (reply) => ({ reply }),
    (error) => ({ error: failure(error) }),
  );
  console.log(JSON.stringify(outcome, digits));
}

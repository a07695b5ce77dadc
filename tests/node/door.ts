// One step through the gRPC door, by a typed client: node dist/door.js STEP ARGUMENT
import { readFileSync } from "node:fs";
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ErrorInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { Contexts } from "./gen/viking/retrieval/v1/contexts_pb.js";
import { Memories } from "./gen/viking/retrieval/v1/memories_pb.js";
import { Retrieval } from "./gen/viking/retrieval/v1/retrieval_pb.js";

const { VIKINGD_URL: baseUrl = "", VIKINGD_KEY: key, VIKINGD_CA: ca } = process.env;

const withKey: Interceptor = (next) => (request) => {
  if (key) request.header.set("authorization", `Bearer ${key}`);
  return next(request);
};

const transport = createGrpcTransport({
  baseUrl,
  interceptors: [withKey],
  nodeOptions: ca ? { ca: readFileSync(ca) } : {},
});
const retrieval = createClient(Retrieval, transport);
const contexts = createClient(Contexts, transport);
const memories = createClient(Memories, transport);

const steps: Record<string, (argument: string) => Promise<unknown>> = {
  async find(query) {
    const reply = await retrieval.find({ query });
    const matches = [...reply.memories, ...reply.resources, ...reply.skills];
    return matches.map((match) => match.uri);
  },
  async read(uri) {
    return (await contexts.get({ uri })).context?.content;
  },
  async write(argument) {
    const [uri, content] = argument.split("=");
    const reply = await contexts.put({ contexts: [{ uri, content }] });
    const revision: bigint = reply.revision;
    return revision > 0n;
  },
  async remember(text) {
    return (await memories.remember({ text, memoryType: "preferences", scope: { withGlobal: true } })).uri;
  },
  async recall(query) {
    const reply = await memories.recall({ query, scope: { withGlobal: true } });
    return reply.results.map((memory) => memory.content);
  },
};

const [step = "", argument = ""] = process.argv.slice(2);
try {
  console.log(JSON.stringify({ ok: await steps[step](argument) }));
} catch (error) {
  const failed = ConnectError.from(error);
  const [info] = failed.findDetails(ErrorInfoSchema);
  const code = Code[failed.code];
  console.log(JSON.stringify({ code, reason: info?.reason, message: failed.rawMessage }));
}

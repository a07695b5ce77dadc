// A host of the plugin for OpenCode: it gives the events of a session as OpenCode 1 or 2 does, and
// prints what the plugin changed. Arguments: the plugin, "1" or "2", the prompts.
import { pathToFileURL } from "node:url"

const [path, version, ...prompts] = process.argv.slice(2)
const { default: plugin } = await import(pathToFileURL(path))
const directory = process.cwd()
const told = { id: plugin.id, turns: [] }
const parents = { child: "main" }
const answer = "Oolong it is."

async function first() {
  const client = { session: { get: async ({ path }) => ({ data: { id: path.id, parentID: parents[path.id] } }) } }
  const hooks = await plugin.server({ client, directory })
  const run = async (sessionID, prompt) => {
    const parts = [
      { id: "prt_1", type: "text", text: prompt },
      { id: "prt_2", type: "text", text: "of the program", synthetic: true },
    ]
    const output = { message: { id: "msg_1" }, parts }
    await hooks["chat.message"]({ sessionID }, output)
    const system = ["You are OpenCode."]
    await hooks["experimental.chat.system.transform"]({ sessionID, model: {} }, { system })
    await hooks["experimental.text.complete"]({ sessionID }, { text: answer })
    await hooks.event({ event: { type: "session.idle", properties: { sessionID } } })
    told.turns.push({ sessionID, system, parts: output.parts })
  }
  for (const prompt of prompts) await run("main", prompt)
  await run("child", "Look for tea.")
  await hooks["experimental.session.compacting"]({ sessionID: "main" }, { context: [] })
  await hooks.event({ event: { type: "session.compacted", properties: { sessionID: "main" } } })
  await hooks.event({ event: { type: "session.deleted", properties: { info: { id: "main" } } } })
  await hooks.event({ event: { type: "unknown" } })
}

async function second() {
  const hooks = {}
  const queue = []
  let wake = () => {}
  const ctx = {
    location: { directory },
    session: {
      get: async ({ sessionID }) => ({ id: sessionID, parentID: parents[sessionID] }),
      hook: async (name, callback) => void (hooks[name] = callback),
    },
    event: {
      async *subscribe({ signal }) {
        signal.addEventListener("abort", () => wake())
        while (!signal.aborted) {
          while (queue.length) yield queue.shift()
          await new Promise((resolve) => {
            wake = resolve
            if (signal.aborted || queue.length) resolve()
          })
        }
      },
    },
  }
  const cleanup = await plugin.setup(ctx)
  const tell = async (type, data) => {
    queue.push({ type, data })
    wake()
    while (queue.length) await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const messages = []
  const run = async (sessionID, text) => {
    await hooks.prompt({ sessionID, prompt: { text } })
    messages.push({ role: "user", content: [{ type: "text", text }] })
    const event = { sessionID, system: [{ type: "text", text: "You are OpenCode." }], messages: [...messages] }
    await hooks.context(event)
    told.turns.push({ sessionID, system: event.system, messages: event.messages })
    messages.push({ role: "assistant", content: [{ type: "text", text: answer }] })
    await tell("session.text.ended", { sessionID, text: answer })
    await tell("session.execution.succeeded", { sessionID })
  }
  for (const prompt of prompts) await run("main", prompt)
  messages.length = 0
  await run("child", "Look for tea.")
  await hooks.compaction({ sessionID: "main" })
  await tell("session.compaction.ended", { sessionID: "main" })
  await tell("session.deleted", { sessionID: "main" })
  await tell("unknown")
  await cleanup()
}

await (version === "1" ? first : second)()
console.log(JSON.stringify(told))

// Talks to a server with the npm package "ollama"; prints what it saw as JSON.
// Arguments: the server's address, the model's name.

const { Ollama } = require("ollama");

async function failure(call) {
  try {
    await call();
    return null;
  } catch (error) {
    return [error.name, error.status_code, error.message];
  }
}

async function main(host, model) {
  const ollama = new Ollama({ host });
  const messages = [{ role: "user", content: "Name two rivers." }];
  const request = { model, messages, options: { temperature: 0, num_predict: 16 } };
  const whole = await ollama.chat(request);
  const parts = [];
  for await (const part of await ollama.chat({ ...request, stream: true })) {
    parts.push(part);
  }
  const generated = await ollama.generate({ model, prompt: "Hi", raw: true, ...request });
  const seen = {
    whole: whole.message.content,
    streamed: parts.map((part) => part.message.content).join(""),
    nParts: parts.length,
    last: parts[parts.length - 1],
    generated: generated.response,
    models: (await ollama.list()).models.map((found) => found.name),
    loaded: (await ollama.ps()).models.map((found) => found.name),
    capabilities: (await ollama.show({ model })).capabilities,
    version: (await ollama.version()).version,
    failures: [
      await failure(() => ollama.chat({ model: "nope", messages })),
      await failure(() => ollama.embed({ model, input: "x" })),
      await failure(() => ollama.pull({ model: "nope" })),
      await failure(() => ollama.delete({ model })),
    ],
  };
  console.log(JSON.stringify(seen));
}

main(process.argv[2], process.argv[3]);
